"""Maximum sizes of files that are read whole, by kind.

All of them are far above what a broker writes. A sparse file of 60 GB takes no room on the disk,
but all memory of the process that reads it. A line or an entry becomes an object of up to 100 times
its size. So the smallest kinds of files have the lowest limits.
"""

from __future__ import annotations

from winnow.errors import CorruptLogError

LOG_SUFFIX = ".log"
_MIB = 2**20
_LIMITS = (
    (".timeindex", 512 * _MIB),  # a log of 2 GiB made of the smallest batches has 403 MiB
    (".index", 512 * _MIB),  # likewise: 269 MiB
    (".txnindex", 64 * _MIB),  # 2 million aborted transactions in one segment
    (".snapshot", 64 * _MIB),  # 1.4 million producers
    (LOG_SUFFIX, 2**31 - 1),  # Kafka's positions in a segment are 31-bit numbers
    (".checkpoint", 2**31 - 1),  # a snapshot of the cluster's metadata
    ("leader-epoch-checkpoint", 2 * _MIB),  # more than 100,000 elections
    ("-offset-checkpoint", 64 * _MIB),  # more than 200,000 partitions with the longest names
    ("quorum-state", 1 * _MIB),
    ("meta.properties", 8 * 2**10),  # the time to parse it grows with the square of its size
    ("partition.metadata", 8 * 2**10),
    ("round.json", 256 * _MIB),  # a journal; some hundred bytes for each segment
    (".json", 64 * _MIB),
)
_OTHERS = 64 * _MIB


def check_size(path: str, size: int) -> int:
    """Return the maximum bytes of a file of this name, staged, deleted or neither. Raise
    CorruptLogError if it has more.
    """
    name = path.rpartition("/")[2]
    limit = next((limit for part, limit in _LIMITS if part in name), _OTHERS)
    if size > limit:
        raise CorruptLogError(
            "a file is too large for its kind",
            expected=f"at most {limit} bytes",
            found=f"{size} bytes",
            where=path,
            hint="No broker writes such a large file. Find out who made it, then restore or "
            "remove it.",
        )
    return limit
