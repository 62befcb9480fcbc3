"""A log of which every other closed segment loses nothing."""

from __future__ import annotations

from pathlib import Path

from tests.crash.logs import INTERVAL, make_log, record, segment_bytes
from winnow.logdir.names import LOG

__all__ = ["INTERVAL", "SEGMENT_BYTES", "UNCHANGED", "make_unchanged_log"]

SEGMENTS = {
    0: [1, 2, 3],
    3: [10, 11, 12],
    6: [20, 1, 22],
    9: [30, 31, 32],
    12: [20, 2, 40],
    15: [40, 50, 51],
    18: [60],
}
"""Numbers of keys by base offset; the last segment is active. The first two were cleaned before."""
UNCHANGED = [3, 9, 15]
FIRST_DIRTY, END = 6, 19
SEGMENT_BYTES = 4 * len(segment_bytes(0, [record(0, 1)])[LOG])
"""No two segments of three records fit together."""


def make_unchanged_log(root: Path) -> Path:
    segments = {
        base: [record(base + at, key) for at, key in enumerate(keys)]
        for base, keys in SEGMENTS.items()
    }
    checkpoints = {"cleaner-offset-checkpoint": FIRST_DIRTY, "replication-offset-checkpoint": END}
    return make_log(root, segments, end=END, checkpoints=checkpoints)
