"""Small log directories with real batches, and the records that a reader finds in them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.commit.leftovers import leftover_names
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.fast_listing import list_sound
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.listing import SegmentListing, list_segments, resolve
from winnow.logdir.names import INDEX, LOG, STAGING_PREFIX, TIMEINDEX, segment_file
from winnow.logdir.snapshots import encode_snapshot
from winnow.logdir.survey import Checkpoints
from winnow.state import Entries, PartitionState, ProducerEntry, Segment, TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.local import LocalStorage
from winnow.wire.batch import BATCH
from winnow.wire.plain import Record

COMPACTED = Entries(compacted=True, remote=False)
T = TopicPartition("t", 0)
STORAGE = LocalStorage()
INTERVAL = 100
"""Bytes between index entries: every second batch gets one."""
MTIME_NS = 1_700_000_000_123_000_000


def record(offset: int, key: int) -> Record:
    return Record(offset, 1_000_000 + offset, b"k%d" % key, b"v%d" % offset)


def segment_bytes(base: int, records: list[Record]) -> dict[str, bytes]:
    """Content of the three files of a segment, one batch per record."""
    data = bytearray()
    builder = IndexBuilder(base_offset=base, index_interval_bytes=INTERVAL)
    rows = np.zeros(len(records), BATCH)
    for row, one in zip(rows, records, strict=True):
        batch = encode_batch([one])
        row["position"], row["size"] = len(data), len(batch)
        row["base_offset"] = row["last_offset"] = one.offset
        row["max_timestamp"] = one.timestamp
        data += batch
    builder.append(rows)
    index, timeindex = builder.finish()
    return {INDEX: index, TIMEINDEX: timeindex, LOG: bytes(data)}


def leftovers(storage: Storage, directory: str) -> tuple[str, ...]:
    return leftover_names(storage, directory, storage.list_dir(directory))


def snapshot(offset: int) -> bytes:
    return encode_snapshot([ProducerEntry(7, 0, offset, offset - 1, 0, 1_000_000 + offset, -1, -1)])


def make_log(
    root: Path, segments: dict[int, list[Record]], *, end: int, checkpoints: dict[str, int]
) -> Path:
    """A log directory with one partition T; all segments but the first, and `end`, have a
    snapshot.
    """
    directory = root / str(T)
    directory.mkdir(parents=True)
    (root / "meta.properties").write_text("#\nversion=1\nnode.id=1\ncluster.id=c\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    for name, offset in checkpoints.items():
        (root / name).write_text(f"0\n2\nother 3 99\nt 0 {offset}\n")
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 5\n")
    for base, records in segments.items():
        for suffix, data in segment_bytes(base, records).items():
            path = directory / segment_file(base, suffix)
            path.write_bytes(data)
            STORAGE.set_mtime_ns(str(path), MTIME_NS + base * 1_000_000_000)
    for offset in [*list(segments)[1:], end]:
        (directory / segment_file(offset, ".snapshot")).write_bytes(snapshot(offset))
    return root


def state_of(root: Path) -> PartitionState:
    listing = listing_of(root)
    checkpoints = Checkpoints(
        cleaner=read_offset_checkpoint(STORAGE, f"{root}/cleaner-offset-checkpoint"),
        log_start=read_offset_checkpoint(STORAGE, f"{root}/log-start-offset-checkpoint"),
        high_watermark=read_offset_checkpoint(STORAGE, f"{root}/replication-offset-checkpoint"),
    )
    return resolve(
        listing,
        log_dir=str(root),
        topic_partition=T,
        checkpoints=checkpoints,
        log_end_offset=read_log(root).end,
        clean_shutdown=False,
    )


def listing_of(root: Path) -> SegmentListing:
    listing = list_segments(STORAGE, f"{root}/{T}")
    assert list_sound(f"{root}/{T}") in {None, listing}
    return listing


@dataclass(frozen=True)
class ReadLog:
    bases: list[int]
    records: list[Record]
    end: int
    """Log end offset."""

    @property
    def latest(self) -> dict[bytes | None, bytes | None]:
        return {one.key: one.value for one in self.records}


def read_log(root: Path) -> ReadLog:
    """Reads every batch, CRCs included; offsets must ascend through the whole log and respect the
    segments' bases.
    """
    logs = sorted((root / str(T)).glob("*.log"))
    records: list[Record] = []
    end = 0
    for path in logs:
        base = int(path.name.split(".")[0])
        assert base >= end, f"{path} begins below {end}"
        end = base
        data, position = path.read_bytes(), 0
        while position < len(data):
            header, found = decode_batch(data, position)
            assert int(header["base_offset"]) >= end
            records += found
            end = int(header["last_offset"]) + 1
            position += int(header["size"])
    return ReadLog([int(path.name.split(".")[0]) for path in logs], records, end)


def staging(root: Path) -> str:
    return f"{root}/{T}/{STAGING_PREFIX}run"


def stage(root: Path, sources: tuple[Segment, ...], keep: set[int]) -> StagedGroup:
    """Writes what is to replace `sources`: those of their records whose offset is in `keep`."""
    directory = staging(root)
    os.makedirs(directory, exist_ok=True)
    base = sources[0].base_offset
    bases = {source.base_offset for source in sources}
    following = min((b for b in read_log(root).bases if b > max(bases)), default=2**62)
    kept = [
        one
        for one in read_log(root).records
        if one.offset in keep and base <= one.offset < following
    ]
    paths = {}
    for suffix, data in segment_bytes(base, kept).items():
        paths[suffix] = f"{directory}/{segment_file(base, suffix)}.attempt"
        STORAGE.create(paths[suffix], data)
        STORAGE.set_mtime_ns(paths[suffix], sources[-1].log_mtime_ms * 1_000_000)
    return StagedGroup(sources=sources, paths=paths)
