"""Metadata logs made by hand: segments and snapshots of the given record values."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Sequence
from pathlib import Path

from tests.twins.encoding import encode_batch
from tests.unit.wire.metadata_values import config, remove_topic
from winnow.logdir.metadata import METADATA_DIR, ClusterMetadata, read_cluster_metadata
from winnow.storage.local import LocalStorage
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

LEADER_CHANGE, HEADER, FOOTER, KRAFT_VERSION = 2, 3, 4, 5
_VALUES = {
    LEADER_CHANGE: b"\0\0" + b"\0\0\0\x01" + b"\x01\x01\0",
    HEADER: b"\0\0" + bytes(8) + b"\0",
    FOOTER: b"\0\0\0",
    KRAFT_VERSION: b"\0\0" + b"\0\0" + b"\0",
}
COMPACT = config("t", "cleanup.policy", "compact")


def control(offset: int, *types: int) -> bytes:
    records = [
        Record(offset + n, 0, b"\x00\x00" + number.to_bytes(2, "big"), _VALUES[number])
        for n, number in enumerate(types)
    ]
    return encode_batch(records, control=True, leader_epoch=1)


def batch(offset: int, *values: bytes, codec: Codec = Codec.NONE, epoch: int = 1) -> bytes:
    records = [Record(offset + n, 0, None, v) for n, v in enumerate(values)]
    return encode_batch(records, codec=codec, leader_epoch=epoch)


def segment(directory: Path, base: int, *batches: bytes) -> Path:
    path = directory / f"{base:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def log(directory: Path, *values: bytes, base: int = 0, codec: Codec = Codec.NONE) -> Path:
    """Write one segment with a batch per value. A log's first segment begins with the leader's
    record.
    """
    batches = [] if base else [control(0, LEADER_CHANGE)]
    first = base or 1
    batches += [batch(first + n, value, codec=codec) for n, value in enumerate(values)]
    return segment(directory, base, *batches)


def snapshot(
    directory: Path, end_offset: int, *values: bytes, batches: Sequence[bytes] | None = None
) -> Path:
    """Write a snapshot as a controller does: offsets begin at 0."""
    path = directory / f"{end_offset:020d}-0000000001.checkpoint"
    if batches is None:
        inside = [batch(2, *values)] if values else []
        batches = [control(0, HEADER, KRAFT_VERSION), *inside, control(2 + len(values), FOOTER)]
    path.write_bytes(b"".join(batches))
    return path


def remove_other_topics(log_dir: Path, *others: Path) -> None:
    """Let the metadata log in `log_dir` end with the removal of each topic that has no directory in
    these log directories, as if somebody had deleted them.
    """
    directory = log_dir / METADATA_DIR
    metadata = read(directory)
    here = {path.name.rpartition("-")[0] for one in (log_dir, *others) for path in one.iterdir()}
    gone = [topic for name, topic in metadata.topics.items() if name not in here]
    removals = [remove_topic(urlsafe_b64decode(f"{topic.topic_id}==")) for topic in gone]
    with (directory / f"{0:020d}.log").open("ab") as writer:
        writer.write(batch(metadata.end_offset, *removals, epoch=metadata.end.epoch))


def read(directory: Path) -> ClusterMetadata:
    return read_cluster_metadata(LocalStorage(), str(directory))


def overrides(metadata: ClusterMetadata) -> dict[str, dict[str, str]]:
    return {
        name: {key: text for key, (text, _) in configs.items()}
        for (kind, name), configs in metadata.configs.items()
        if kind == "topic"
    }


def of_log(directory: Path, *values: bytes) -> ClusterMetadata:
    log(directory, *values)
    return read(directory)
