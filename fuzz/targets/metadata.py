"""The cluster's metadata log and its snapshots, and what brokers keep in their own topics."""

from __future__ import annotations

import os
import struct

from fuzz.scratch import directory, log_dir, storage, written
from fuzz.targets.base import Target, require
from fuzz.targets.batches import sealed
from tests.fixtures.data import unpacked
from tests.unit.logdir.metadata_logs import (
    FOOTER,
    HEADER,
    KRAFT_VERSION,
    LEADER_CHANGE,
    batch,
    control,
)
from tests.unit.wire import metadata_values as values
from winnow.budget import Budget
from winnow.cleaning.plan.settings import with_metadata
from winnow.errors import CorruptLogError
from winnow.logdir.metadata import METADATA_DIR, ClusterMetadata, read_cluster_metadata
from winnow.logdir.metadata_image import MetadataImage
from winnow.logdir.metadata_log import MetadataValue, read_log
from winnow.policy.sources import Settings
from winnow.wire.batch import Codec
from winnow.wire.internal_topics import INTERNAL_TOPICS, decode_key, decode_value
from winnow.wire.metadata_records import decode_metadata_record

_VALUES = (
    values.topic("orders"),
    values.partition(0),
    values.partition(7, version=1),
    values.config("orders", "cleanup.policy", "compact"),
    values.config("orders", "retention.ms", None),
    values.broker_config("1", "log.retention.ms", "5"),
    values.broker_config("", "log.cleaner.enable", "false"),
    values.feature("metadata.version", 27),
    values.no_op(),
    values.begin(),
    values.topic("../../x", values.ID_B),
    values.end(),
    values.begin(None),
    values.abort(),
    values.remove_topic(),
)


_SUM = 1 << 16
"""Bytes of all compressed batches together, in the target of that name."""


def _record(data: bytes) -> None:
    decode_metadata_record(data)


def _log(data: bytes) -> None:
    """Byte 0: whether CRCs are made right first; then the only segment of a metadata log."""
    _directory(log=_sealed(data), snapshot=None)


def _snapshot(data: bytes) -> None:
    """As `_log`, a snapshot beside a log that begins where it ends."""
    after = len(_VALUES)
    _directory(log=sealed(batch(after, values.no_op())), snapshot=_sealed(data), base=after)


def _sum(data: bytes) -> None:
    """Bytes 0 and 1: how often a batch is repeated, and its value; byte 2: the codec; the value."""
    times, longer, codec, _ = data[:4].ljust(4, b"\0")
    codec %= len(Codec)
    one = batch(0, data[3:] * (1 + 8 * longer), codec=Codec(codec))
    log = b"".join(struct.pack(">q", offset) + one[8:] for offset in range(1 + times))
    budget = Budget(_SUM, "bytes", "too many")
    image, used = MetadataImage("log"), 0

    def use(value: MetadataValue) -> None:
        nonlocal used
        used += len(value.data or b"")
        image.take(value)

    os.makedirs(f"{directory()}/{METADATA_DIR}", exist_ok=True)
    path = written(f"{METADATA_DIR}/{0:020d}.log", log)
    try:
        read_log(storage, f"{directory()}/{METADATA_DIR}", use, start=0, budget=budget)
    finally:
        os.unlink(path)
        require(codec == Codec.NONE or used <= _SUM, "more was decompressed than the limit")
    image.check()


def _sealed(data: bytes) -> bytes:
    return sealed(data[1:]) if data[:1] >= b"\x20" else data[1:]


def _directory(*, log: bytes, snapshot: bytes | None, base: int = 0) -> None:
    os.makedirs(f"{directory()}/{METADATA_DIR}", exist_ok=True)
    names = {f"{base:020d}.log": log}
    if snapshot is not None:
        names[f"{base:020d}-0000000001.checkpoint"] = snapshot
    try:
        for name, content in names.items():
            written(f"{METADATA_DIR}/{name}", content)
        found = read_cluster_metadata(storage, f"{directory()}/{METADATA_DIR}")
        _check(found, base)
    finally:
        for name in names:
            os.unlink(f"{directory()}/{METADATA_DIR}/{name}")


def _check(found: ClusterMetadata, base: int) -> None:
    end = read_log(storage, f"{directory()}/{METADATA_DIR}", lambda _: None, start=base)
    require(found.end_offset == end.offset, "the metadata ends elsewhere than its log")
    settings, _ = with_metadata(Settings(), storage, [log_dir()])
    require(
        settings.metadata is not None and settings.metadata.problem is None,
        "metadata that was read is not used",
    )
    topics = [*found.topics, *(name for _, name in found.configs), "t"]
    for topic in topics[:5]:
        settings.resolve(topic, node_id=1)
    settings.notes()


def _logs() -> list[bytes]:
    batches = [control(0, LEADER_CHANGE)]
    batches += [batch(1 + n, value, codec=Codec(n % 5)) for n, value in enumerate(_VALUES)]
    together = control(0, LEADER_CHANGE) + batch(1, *_VALUES)
    recorded = next(unpacked("before-clean").glob("clean/__cluster_metadata-0/*.log")).read_bytes()[
        :3000
    ]
    return [b"\x20" + log for log in (b"".join(batches), together, recorded)]


def _snapshots() -> list[bytes]:
    whole = (
        control(0, HEADER, KRAFT_VERSION) + batch(2, *_VALUES) + control(2 + len(_VALUES), FOOTER)
    )
    return [b"\x20" + whole, b"\x20" + control(0, HEADER) + control(1, FOOTER)]


def _internal(data: bytes) -> None:
    """Byte 0: the topic; byte 1: length of the key; then key and value."""
    head = data[:2].ljust(2, b"\x00")
    topic = INTERNAL_TOPICS[head[0] % len(INTERNAL_TOPICS)]
    key = decode_key(topic, data[2 : 2 + head[1]])
    if key is None:
        raise CorruptLogError("no such key")
    if decode_value(topic, key, data[2 + head[1] :]) is None:
        raise CorruptLogError("no such value")


def _internals() -> list[bytes]:
    def text(content: bytes) -> bytes:
        return struct.pack(">h", len(content)) + content

    commit = b"\x00\x01" + text(b"group") + text(b"topic") + struct.pack(">i", 3)
    group = b"\x00\x02" + text(b"group")
    transaction = b"\x00\x00" + text(b"id")
    offset = b"\x00\x03" + struct.pack(">qi", 5, 1) + text(b"meta") + struct.pack(">q", 1)
    members = (
        b"\x00\x03"
        + text(b"consumer")
        + struct.pack(">i", 1)
        + text(b"range")
        + text(b"m")
        + bytes(12)
    )
    ongoing = (
        b"\x00\x00"
        + struct.pack(">qhibi", 7, 1, 60000, 1, 1)
        + text(b"t")
        + struct.pack(">iiqq", 1, 0, 1, 1)
    )
    flexible = (
        b"\x00\x01"
        + struct.pack(">qhib", 7, 1, 60000, 1)
        + b"\x02\x02t\x02"
        + bytes(4)
        + b"\x00"
        + bytes(17)
    )
    pairs = (
        (0, commit, offset),
        (0, group, members),
        (1, transaction, ongoing),
        (1, transaction, flexible),
    )
    return [bytes([topic, len(key)]) + key + value for topic, key, value in pairs]


TARGETS = {
    "metadata-sum": Target(
        check=_sum,
        seeds=lambda: [
            bytes([times, longer, codec]) + value
            for value in _VALUES
            for times, longer, codec in ((0, 0, 0), (3, 0, 4), (255, 255, 4), (200, 40, 1))
        ],
        weight=1,
    ),
    "metadata-record": Target(check=_record, seeds=lambda: list(_VALUES)),
    "metadata-log": Target(check=_log, seeds=_logs, weight=1),
    "metadata-snapshot": Target(check=_snapshot, seeds=_snapshots, weight=1),
    "internal-topics": Target(check=_internal, seeds=_internals),
}
