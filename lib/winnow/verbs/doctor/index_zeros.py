"""Find the zeros at the end of an index that take blocks.

A broker makes an index with its full size, which is a hole, and cuts the rest when it rolls the
segment or stops. Most file systems keep the hole. A copy without holes, or a file system that
knows none, gives each zero a place on the disk.
"""

from __future__ import annotations

from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.logdir.indexes.txnindex import ENTRY
from winnow.logdir.names import INDEX, TIMEINDEX
from winnow.storage.contract import Entry, Storage

_BLOCK = 4096
_LEAST = 4 * _BLOCK
"""Bytes of blocks from which on an index is looked at."""
_LOG_BYTES_PER_ENTRY = 512
"""Indexes with fewer than an entry for so many bytes of the log are full of entries, as a rule:
Kafka's default for `index.interval.bytes` is 4096.
"""


def zero_bytes(storage: Storage, path: str, index: Entry, *, log_bytes: int) -> int:
    """Return the bytes of the blocks behind the last entry of an index, or 0 if it is not larger
    than its log needs. Reads some bytes of an index that is larger.
    """
    taken = index.size if index.allocated is None else index.allocated
    entry = {INDEX: OFFSET_ENTRY_SIZE, TIMEINDEX: TIME_ENTRY_SIZE}.get(
        path[path.rindex(".") :], ENTRY.size
    )
    needed = log_bytes // _LOG_BYTES_PER_ENTRY * entry
    if taken < _LEAST or index.size < needed + _LEAST:
        return 0

    def is_zero(number: int) -> bool:
        return not any(storage.read_range(path, number * entry, entry))

    low, high = 0, index.size // entry
    if not high or not is_zero(high - 1):
        return 0
    while low < high:  # entries come first, then only zeros
        middle = (low + high) // 2
        if is_zero(middle):
            high = middle
        else:
            low = middle + 1
    end = low * entry
    return max(taken - -(-end // _BLOCK) * _BLOCK, 0)
