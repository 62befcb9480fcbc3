"""What a power failure does to the log directory of a dead broker: bytes that were never synced are
lost.

A log is synced up to its recovery point. What lies above it may be cut, zeroed or torn, in each
segment, and its indexes as well.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

from tests.kafka.cleaner.runs import read_checkpoint
from winnow.logdir.names import INDEX, LOG, RECOVERY_POINT_CHECKPOINT, TIMEINDEX

PAGE = 4096
HEADER = struct.Struct(">qi11xi")
"""Base offset, length of what follows, last offset delta (format v2)."""
LENGTH_END = 12


def lose_page_cache(log_dir: Path, rng: random.Random) -> list[str]:
    """Tear the tails of some partitions; return what was done, a line each."""
    points = read_checkpoint(log_dir / RECOVERY_POINT_CHECKPOINT)
    done = []
    for directory in sorted(path for path in log_dir.iterdir() if path.is_dir()):
        if directory.name != "__cluster_metadata-0" and rng.random() < 0.8:
            done += _tear(directory, points.get(directory.name, 0), rng)
    return done


def synced_bytes(log: Path, recovery_point: int) -> int:
    """Return where the first batch begins that reaches the recovery point."""
    data, position = log.read_bytes(), 0
    while position + HEADER.size <= len(data):
        base, length, last = HEADER.unpack_from(data, position)
        if base + last >= recovery_point or length <= 0:
            break
        position += LENGTH_END + length
    return min(position, len(data))


def _tear(directory: Path, recovery_point: int, rng: random.Random) -> list[str]:
    logs = sorted(directory.glob(f"*{LOG}"))
    loose = [log for log in logs if synced_bytes(log, recovery_point) < log.stat().st_size]
    if not loose:
        return []
    # Mostly the last one: that is what a real disk loses first.
    log = loose[-1] if rng.random() < 0.6 else rng.choice(loose)
    data, synced = log.read_bytes(), synced_bytes(log, recovery_point)
    at = rng.randrange(synced, len(data))
    how = rng.choice(
        ("cut", "zeros to the end", "a page of zeros", "zeros behind the end", "noise")
    )
    if how == "cut":
        torn = data[:at]
    elif how == "zeros to the end":
        torn = data[:at] + bytes(len(data) - at)
    elif how == "a page of zeros":
        begin = max(synced, at // PAGE * PAGE)
        torn = (data[:begin] + bytes(PAGE) + data[begin + PAGE :])[: len(data)]
    elif how == "zeros behind the end":
        torn = data + bytes(rng.randrange(1, 5 * PAGE))
    else:
        torn = data[:at] + rng.randbytes(len(data) - at)
    log.write_bytes(torn)
    said = [f"{directory.name}/{log.name}: {how} at {at} of {len(data)}, synced to {synced}"]
    for suffix in (INDEX, TIMEINDEX):
        index = log.with_suffix(suffix)
        if synced == 0 and index.exists() and rng.random() < 0.5:
            kept = rng.randrange(index.stat().st_size + 1)
            index.write_bytes(index.read_bytes()[:kept] + bytes(rng.choice((0, 96))))
            said.append(f"{directory.name}/{index.name}: cut at {kept}")
    return said
