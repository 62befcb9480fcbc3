"""Real partition directories with a few small batches, and jobs over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.listing import list_segments
from winnow.logdir.names import INDEX, LOG, SEGMENT_SUFFIXES, TIMEINDEX, segment_file
from winnow.scan.cut import Split
from winnow.scan.job import GroupJob, PartitionJob
from winnow.state import Segment
from winnow.storage.local import LocalStorage
from winnow.survey.walk import walk_segment
from winnow.wire.batch import BATCH, Codec
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches

NOW = 1_800_000_000_000
INTERVAL = 100
INDEX_BYTES = 10_485_760
SECRET = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
MTIME_NS = 1_700_000_000_123_456_789


def record(offset: int, key: bytes | None = b"k", value: bytes | None = b"v") -> Record:
    return Record(offset, NOW - 10**6 + offset, key, value)


def batch(*records: Record, codec: Codec = Codec.NONE, producer_id: int = -1) -> bytes:
    return encode_batch(
        list(records), codec=codec, producer_id=producer_id, producer_epoch=0, base_sequence=0
    )


def make_partition(directory: Path, segments: Mapping[int, Sequence[bytes]]) -> Path:
    """Write three files per segment (base offset -> its batches). Each is an hour newer than the
    one before.
    """
    directory.mkdir(parents=True)
    for age, (base, batches) in enumerate(segments.items()):
        data = b"".join(batches)
        for suffix, content in {LOG: data, **indexes(data, base)}.items():
            path = directory / segment_file(base, suffix)
            path.write_bytes(content)
            LocalStorage().set_mtime_ns(str(path), MTIME_NS + age * 3_600_000_000_000)
    return directory


def indexes(log: bytes, base: int) -> dict[str, bytes]:
    rows = np.zeros(len(log) // 61 + 1, BATCH)
    count, _, _ = walk_batches(log, 0, base, rows)
    builder = IndexBuilder(base_offset=base, index_interval_bytes=INTERVAL)
    builder.append(rows[:count])
    index, timeindex = builder.finish()
    return {INDEX: index, TIMEINDEX: timeindex}


def segments_of(directory: Path) -> tuple[Segment, ...]:
    listing = list_segments(LocalStorage(), str(directory))
    assert not listing.problems
    return listing.segments


def splits_of(directory: Path) -> tuple[Split, ...]:
    return tuple(
        split
        for segment in segments_of(directory)
        for split in walk_segment(str(directory), segment.base_offset, segment.log_bytes).splits
    )


def job_of(directory: Path, **changes: object) -> PartitionJob:
    """Return a job with one group of all segments, everything dirty, with `changes` applied."""
    segments, splits = segments_of(directory), splits_of(directory)
    (directory / ".winnow-run").mkdir(exist_ok=True)
    job = PartitionJob(
        topic="t",
        directory=str(directory),
        staging=f"{directory}/.winnow-run",
        first_dirty_offset=0,
        end_offset=1_000_000,
        delete_retention_ms=86_400_000,
        delete_horizons=True,
        legacy_delete_horizon_ms=0,
        converts=True,
        emptied_end=1_000_000,
        index_interval_bytes=INTERVAL,
        segment_index_bytes=INDEX_BYTES,
        max_decompressed_bytes=2**20,
        last_records={},
        splits=splits,
        groups=(
            GroupJob(
                segments,
                tuple(range(len(splits))),
                most_log_bytes=sum(segment.log_bytes for segment in segments),
            ),
        ),
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def files_of(directory: Path, group: CleanedGroup) -> dict[str, str]:
    """Return the files of the segment that a group becomes, by suffix: the staged ones, or those of
    the source that stays.
    """
    if group.staged is not None:
        return dict(group.staged.paths)
    paths = {
        suffix: directory / segment_file(group.base_offset, suffix) for suffix in SEGMENT_SUFFIXES
    }
    return {suffix: str(path) for suffix, path in paths.items() if path.exists()}


def records_in(log: bytes) -> list[Record]:
    """Return all records of a log, batch by batch, with CRCs checked."""
    records: list[Record] = []
    position = 0
    while position < len(log):
        header, found = decode_batch(log, position)
        records += found
        position += int(header["size"])
    return records
