"""Partitions written by hand, down to their offsets: with gaps, with empty segments, and with
segments that span too many offsets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.twins.encoding import encode_batch
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.logdir.snapshots import encode_snapshot
from winnow.wire.batch import BATCH, MAX_OFFSET_SPAN
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
INTERVAL_BYTES = 150
FAR = MAX_OFFSET_SPAN
"""The largest distance that fits."""

Segments = Mapping[int, Sequence[tuple[int, str]]]
"""Base offset -> (offset, key) of each record, a batch each; a capital key is a tombstone. The last
one is active.
"""


def one(offset: int, key: str, *, leader_epoch: int = 0) -> bytes:
    """A batch of one record; values are long enough for some index entries."""
    value = None if key.isupper() else f"{key}{offset}".encode().ljust(40, b".")
    record = Record(offset, NOW - 10 * HOUR_MS + offset % 1000, key.lower().encode(), value)
    return encode_batch([record], leader_epoch=leader_epoch)


def make_log_dir(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / "meta.properties").write_text("#\nversion=1\nnode.id=1\ncluster.id=c\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return root


def write_partition(
    directory: Path, segments: Segments, *, end: int, epochs: Sequence[tuple[int, int]] = ((0, 0),)
) -> None:
    """Segments are an hour apart. `epochs`: (epoch, start offset), ascending.

    Where a segment can't be indexed its index files are empty, as Kafka's tests have them.
    """
    directory.mkdir()
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    (directory / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    for number, (base, records) in enumerate(segments.items()):
        log = b"".join(
            one(offset, key, leader_epoch=max(epoch for epoch, start in epochs if start <= offset))
            for offset, key in records
        )
        for suffix, content in {LOG: log, **_indexes(base, log)}.items():
            path = directory / segment_file(base, suffix)
            path.write_bytes(content)
            os.utime(path, ns=((NOW - (20 - number) * HOUR_MS) * 1_000_000,) * 2)
        if number:
            (directory / segment_file(base, ".snapshot")).write_bytes(encode_snapshot([]))
    (directory / segment_file(end, ".snapshot")).write_bytes(encode_snapshot([]))


def make_log(root: Path, segments: Segments, *, end: int) -> Path:
    """A log directory with the one partition t-0."""
    make_log_dir(root)
    write_partition(root / "t-0", segments, end=end)
    (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {end}\n")
    return root


def _indexes(base: int, log: bytes) -> dict[str, bytes]:
    rows = np.zeros(len(log) // 61 + 1, BATCH)
    count, _, _ = walk_batches(log, 0, base, rows)
    if count and int(rows["last_offset"][count - 1]) - base > MAX_OFFSET_SPAN:
        return {INDEX: b"", TIMEINDEX: b""}
    builder = IndexBuilder(base_offset=base, index_interval_bytes=INTERVAL_BYTES)
    builder.append(rows[:count])
    index, timeindex = builder.finish()
    return {INDEX: index, TIMEINDEX: timeindex}
