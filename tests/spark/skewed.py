"""Log directories in which one partition or one key has nearly all records."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import Case
from benchmarks.data import NOW
from benchmarks.many import high_watermark, one_batch
from benchmarks.shapes import append, pieces, updates
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from tests.log_writer.writer import LogWriter
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings

_VALUES = Case("skewed")
RECORD_BYTES = 125
_HOT = 0.9
_MIB = 1 << 20


def make(path: Path, *, big_mib: int, segment_mib: int, tiny: int, hot: bool) -> Settings:
    """`big-0` and so many partitions of 20 records, all to be compacted. `hot`: most of its records
    have one key.
    """
    with LogDirWriter(path, clock=lambda: NOW - 86_400_000) as log_dir:
        log = log_dir.partition("big", 0, SegmentConfig(segment_bytes=segment_mib * _MIB))
        _fill(log, big_mib * _MIB // RECORD_BYTES, hot=hot)
        ends = [f"big 0 {log.log_end_offset}"]
        if tiny:
            log = log_dir.partition("tiny", 0, SegmentConfig(segment_bytes=_MIB))
            for segment in range(2):
                log.append(one_batch(log.log_end_offset, segment))
                log.roll()
    for number in range(1, tiny):
        shutil.copytree(path / "tiny-0", path / f"tiny-{number}")
    high_watermark(path, ends + [f"tiny {number} 20" for number in range(tiny)])
    settings = (
        "cleanup.policy=compact",
        "min.cleanable.dirty.ratio=0.01",
        f"segment.bytes={segment_mib * _MIB}",
    )
    lines = [f"{topic} {setting}\n" for topic in ("big", "tiny") for setting in settings]
    return Settings(topic_configs=parse_topic_configs("".join(lines)))


def _fill(log: LogWriter, records: int, *, hot: bool) -> None:
    random = np.random.default_rng(1)

    def ids() -> Iterator[NDArray[np.int64]]:
        for count in pieces(_VALUES, records):
            drawn = random.integers(1, records, count)
            yield np.where(random.random(count) < _HOT, 0, drawn) if hot else drawn

    append(log, _VALUES, updates(random, _VALUES, ids()))
    log.roll()
