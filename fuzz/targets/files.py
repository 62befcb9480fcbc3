"""The files beside a log: indexes, snapshots, checkpoints, properties."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import astuple

from fuzz.scratch import directory, storage, written
from fuzz.targets.base import Target, require
from fuzz.targets.batches import log_seeds, sealed
from fuzz.targets.properties import walked
from tests.fixtures.data import unpacked
from tests.twins.crc import crc32c_plain
from tests.twins.files import index_plain
from winnow.errors import UsageError
from winnow.logdir.batches import Piece
from winnow.logdir.checkpoints import (
    fold_leader_epochs,
    read_leader_epochs,
    read_offset_checkpoint,
    update_offset_checkpoint,
    write_leader_epochs,
)
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.indexes.checks import check_offset_index, columns_of
from winnow.logdir.indexes.index import decode_offset_index, decode_time_index, without_preallocated
from winnow.logdir.indexes.txnindex import decode_txn_index, encode_txn_index
from winnow.logdir.meta import read_meta, read_topic_id
from winnow.logdir.names import LEADER_EPOCHS, META_PROPERTIES, PARTITION_METADATA
from winnow.logdir.snapshots import ENTRY, HEAD, decode_snapshot, encode_snapshot
from winnow.policy.producers import expire, from_entries, last_records
from winnow.wire.buffers import as_bytes

_MANY = 1000


def _base(data: bytes) -> int:
    return int.from_bytes(data[:8], "big") % 2**63


def _offset_index(data: bytes) -> None:
    """8 bytes: the base offset; 4: the size of the log; then the file."""
    base, size, content = (
        _base(data),
        int.from_bytes(data[8:12], "big"),
        without_preallocated(data[12:], 8),
    )
    entries = decode_offset_index(
        content, "i", base_offset=base, log_bytes=size, end_offset=base + 2**31
    )
    require(len(entries) * 8 == len(content), "entries were lost")
    positions, offsets = entries["position"].tolist(), entries["offset"].tolist()
    require(
        all(0 < p < size for p in positions) and sorted(set(positions)) == positions, "positions"
    )
    require(
        all(base <= o < base + 2**31 for o in offsets) and sorted(set(offsets)) == offsets,
        "offsets",
    )


def _time_index(data: bytes) -> None:
    base, content = _base(data), without_preallocated(data[8:], 12)
    entries = decode_time_index(content, "t", base_offset=base, end_offset=base + 2**31)
    require(len(entries) * 12 == len(content), "entries were lost")
    stamps, offsets = entries["timestamp"].tolist(), entries["offset"].tolist()
    require(min(stamps, default=0) >= 0 and sorted(set(stamps)) == stamps, "timestamps")
    require(
        all(base <= o < base + 2**31 for o in offsets) and sorted(offsets) == offsets, "offsets"
    )


def _built_indexes(data: bytes) -> None:
    """8 bytes: base offset and interval; then a log, whose indexes a kernel and its twin make."""
    base, interval = 0 if data[:1] < b"\x40" else _base(data), (data[7:8] or b"\x00")[0]
    rows = walked(as_bytes(data[8:]), least_offset=base)
    builder = IndexBuilder(base_offset=base, index_interval_bytes=interval)
    builder.append(rows)
    index, times = builder.finish()
    require(
        (index, times) == index_plain(rows, base_offset=base, interval=interval),
        "kernel and twin differ",
    )
    batches = columns_of(Piece(as_bytes(data), rows, 0))
    check_offset_index(
        index, "i", batches, base_offset=base, log_bytes=len(data), end_offset=base + 2**31
    )
    decode_time_index(times, "t", base_offset=base, end_offset=base + 2**31)


def _txn_index(data: bytes) -> None:
    base = _base(data)
    entries = decode_txn_index(data[8:], "t", base_offset=base)
    require(encode_txn_index(entries) == data[8:], "entries do not come back as they were")


def _snapshot(data: bytes) -> None:
    """Byte 0: whether count and CRC are made right first."""
    content = data[1:]
    if data[:1] >= b"\x40" and len(content) >= HEAD.size:
        content = content[: HEAD.size + (len(content) - HEAD.size) // ENTRY.size * ENTRY.size]
        covered = struct.pack(">i", (len(content) - HEAD.size) // ENTRY.size) + content[HEAD.size :]
        content = b"\x00\x01" + struct.pack(">I", crc32c_plain(covered)) + covered
    entries = decode_snapshot(content, where="s")
    require(encode_snapshot(entries) == content, "entries do not come back as they were")
    state = expire(from_entries(entries), 2**62, 86_400_000)
    require(
        len(last_records(state)) <= len({astuple(e)[0] for e in entries}),
        "more producers than entries",
    )


def _offset_checkpoint(data: bytes) -> None:
    path = written("cleaner-offset-checkpoint", data)
    before = read_offset_checkpoint(storage, path)
    for key in list(before)[:1]:
        written(META_PROPERTIES, b"")
        update_offset_checkpoint(storage, path, {key: None})
        update_offset_checkpoint(storage, path, {key: before[key]})
        require(
            read_offset_checkpoint(storage, path) == before,
            "an entry was lost when the file was written again",
        )


def _leader_epochs(data: bytes) -> None:
    written(LEADER_EPOCHS, data)
    epochs = read_leader_epochs(storage, directory())
    require(list(epochs) == sorted(set(epochs)), "epochs do not ascend")
    folded = fold_leader_epochs(epochs, epochs[-1][1] if epochs else 0)
    write_leader_epochs(storage, directory(), folded)
    require(
        read_leader_epochs(storage, directory()) == folded,
        "epochs do not come back as they were written",
    )


def _meta_properties(data: bytes) -> None:
    written(META_PROPERTIES, data)
    meta = read_meta(storage, directory())
    require(
        meta.version == 0 or (meta.version > 0 and meta.cluster_id is not None),
        "meta.properties",
    )


def _partition_metadata(data: bytes) -> None:
    written(PARTITION_METADATA, data)
    topic_id = read_topic_id(storage, directory())
    require(topic_id is None or len(topic_id) == 22, "no topic id")


def _recorded(suffix: str, *, head: Callable[[str], bytes] = lambda _: b"") -> list[bytes]:
    """Files of real brokers with that end of their names, those of no more than 2 KB; `head` is
    given the name.
    """
    found = {
        head(path.name) + path.read_bytes()
        for log_dir in ("clean", "legacy", "damaged")
        for path in unpacked(f"before-{log_dir}").glob(f"{log_dir}/**/*{suffix}")
        if path.is_file() and path.stat().st_size <= 2048
    }
    return sorted(found)[:_MANY]


def _with_base(name: str) -> bytes:
    return struct.pack(">q", int(name.partition(".")[0]))


TARGETS = {
    "index": Target(
        check=_offset_index,
        seeds=lambda: _recorded(".index", head=lambda name: _with_base(name) + b"\x00\x10\x00\x00"),
    ),
    "timeindex": Target(check=_time_index, seeds=lambda: _recorded(".timeindex", head=_with_base)),
    "built-indexes": Target(
        check=_built_indexes,
        seeds=lambda: [bytes(8) + sealed(seed[1:]) for seed in log_seeds()[::2]],
    ),
    "txnindex": Target(check=_txn_index, seeds=lambda: _recorded(".txnindex", head=_with_base)),
    "snapshot": Target(
        check=_snapshot,
        seeds=lambda: [f + s for s in _recorded(".snapshot") for f in (b"\0", b"\x40")],
    ),
    "offset-checkpoint": Target(
        check=_offset_checkpoint, seeds=lambda: _recorded("-offset-checkpoint")
    ),
    "leader-epochs": Target(check=_leader_epochs, seeds=lambda: _recorded(LEADER_EPOCHS)),
    "meta-properties": Target(
        check=_meta_properties,
        seeds=lambda: [
            *_recorded(META_PROPERTIES),
            b"version=0\nbroker.id=1\ncluster.id=\\u0041\n",
        ],
        refusals=(UsageError,),
    ),
    "partition-metadata": Target(
        check=_partition_metadata, seeds=lambda: _recorded(PARTITION_METADATA)
    ),
}
