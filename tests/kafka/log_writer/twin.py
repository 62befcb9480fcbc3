"""One log twice: written by Winnow and, from the same steps, by Kafka's own `UnifiedLog`."""

from __future__ import annotations

import gzip
import shutil
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from tests.log_writer.leader_batches import Producer
from tests.log_writer.segment_writer import SegmentConfig
from tests.log_writer.writer import LogWriter
from tests.twins.encoding import encode_batch
from winnow.logdir.names import LEADER_EPOCHS
from winnow.wire.batch import FRAME, MAGIC_AT
from winnow.wire.plain import Record

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
NAME = "t-0"
STEP = struct.Struct(">cqqi")
"""kind, clock, number, size: see Append.java."""
FOLLOWER, LEADER, MARKER, EPOCH, LOG_START, ROLL = b"F", b"L", b"M", b"E", b"S", b"R"


class _Recorder(LogWriter):
    """Remembers what was appended last."""

    appended = b""

    def append(self, data: bytes) -> None:
        super().append(data)
        self.appended = data


class Twin:
    """`now` is the clock of both. Steps go to our log at once, to Kafka's when they are
    compared.
    """

    def __init__(
        self,
        kafka: Kafka,
        root: Path,
        config: SegmentConfig | None = None,
        *,
        now: int,
        log_start_offset: int = 0,
    ) -> None:
        self.now = now
        self._ours, self._kafkas = root / "ours" / NAME, root / "kafkas" / NAME
        self._kafka = kafka
        self._root = root
        self._config = config or SegmentConfig()
        self._kafkas.mkdir(parents=True)
        self._open(log_start_offset)

    def follow(self, data: bytes) -> None:
        self.log.append(data)
        self._step(FOLLOWER, data=data)

    def lead(self, records: list[Record], **options: Any) -> int:
        base = self.log.append_records(records, **options)
        self._step(LEADER, self.log.leader_epoch, unstamped(self.log.appended))
        return base

    def mark(self, producer: Producer, *, commit: bool, **options: Any) -> int:
        offset = self.log.append_marker(producer, commit=commit, **options)
        self._step(MARKER, self.log.leader_epoch, unstamped(self.log.appended))
        return offset

    def become_leader(self, epoch: int) -> None:
        self.log.become_leader(epoch)
        self._step(EPOCH, epoch)

    def raise_log_start_offset(self, offset: int) -> None:
        self.log.raise_log_start_offset(offset)
        self._step(LOG_START, offset)

    def roll(self) -> None:
        self.log.roll()
        self._step(ROLL)

    def assert_alike(self) -> dict[str, bytes]:
        """Close both, compare all files, let Kafka load ours, open both again, and return the files
        by name.
        """
        self.log.close()
        steps = self._root / "steps"
        steps.write_bytes(b"".join(self._steps))
        self._ask("append", self._kafkas, "--steps", str(steps), start_offset=self._began_at)
        found, expected = contents(self._ours), contents(self._kafkas)
        assert sorted(found) == sorted(expected)
        for name, data in expected.items():
            assert found[name].hex() == data.hex(), name
        self._assert_nothing_to_repair(found)
        self._open(self.log.log_start_offset)
        return found

    def _open(self, log_start_offset: int) -> None:
        self._began, self._began_at = self.now, log_start_offset
        self._steps: list[bytes] = []
        self.log = _Recorder(
            self._ours, self._config, clock=lambda: self.now, log_start_offset=log_start_offset
        )

    def _step(self, kind: bytes, number: int = 0, data: bytes = b"") -> None:
        self._steps.append(STEP.pack(kind, self.now, number, len(data)) + data)

    def _assert_nothing_to_repair(self, before: Mapping[str, bytes]) -> None:
        copy = self._root / "loaded" / NAME
        copy.parent.mkdir(exist_ok=True)
        copy_tree(self._ours, copy)
        state = self._ask("open", copy, start_offset=self.log.log_start_offset)["after"]
        assert state["end_offset"] == self.log.log_end_offset
        if self.log.last_stable_offset > self.log.log_start_offset:
            # Otherwise Kafka looks for the next offset that exists.
            assert state["last_stable_offset"] == self.log.last_stable_offset
        after = contents(copy)
        shutil.rmtree(copy)
        # What a loader always does: it removes snapshots, and the epoch of a leader that wrote
        # nothing.
        changed = {name for name, data in before.items() if after.get(name) != data}
        assert all(name == LEADER_EPOCHS or name.endswith(".snapshot") for name in changed)
        assert all(name == LEADER_EPOCHS for name in changed & after.keys())
        if any(name.endswith(".snapshot") for name in before):  # without any, it makes empty ones
            assert after.keys() <= before.keys()
        assert all(name in before or name.endswith(".snapshot") for name in after)
        if LEADER_EPOCHS in changed:
            assert int(before[LEADER_EPOCHS].split()[-1]) == self.log.log_end_offset

    def _ask(
        self, command: str, directory: Path, *arguments: str, start_offset: int
    ) -> dict[str, Any]:
        options: dict[str, object] = {
            "now": self._began,
            "policy": "delete",
            "start-offset": start_offset,
            "segment-bytes": self._config.segment_bytes,
            "max-index": self._config.segment_index_bytes,
            "index-interval": self._config.index_interval_bytes,
            "config": f"segment.ms={self._config.segment_ms}",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        [answer] = self._kafka.run(command, directory, *arguments, *words)
        return answer


def records(count: int = 1, *, timestamp: int = NOW, size: int = 10) -> list[Record]:
    return [
        Record(number, timestamp + number, b"k%d" % number, b"v" * size) for number in range(count)
    ]


def batch(
    offset: int, count: int = 1, *, timestamp: int = NOW, size: int = 10, **options: Any
) -> bytes:
    """As a follower gets it."""
    moved = [
        Record(offset + r.offset, r.timestamp, r.key, r.value)
        for r in records(count, timestamp=timestamp, size=size)
    ]
    return encode_batch(moved, **({"leader_epoch": 0} | options))


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def legacy(
    magic: int,
    offset: int,
    *,
    timestamp: int = -1,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    codec: int = 0,
) -> bytes:
    """An entry of v0 or v1 (S2.1)."""
    body = bytes([magic, codec]) + (timestamp.to_bytes(8, "big", signed=True) if magic else b"")
    for field in (key, value):
        body += (-1 if field is None else len(field)).to_bytes(4, "big", signed=True) + (
            field or b""
        )
    return FRAME.pack(offset, 4 + len(body)) + zlib.crc32(body).to_bytes(4, "big") + body


def wrapper(magic: int, offsets: list[int], *, timestamp: int = -1) -> bytes:
    """A gzip wrapper around records of v0 or v1; its inner offsets are absolute in v0, relative in
    v1.
    """
    base = offsets[0] if magic else 0
    inner = b"".join(legacy(magic, offset - base, timestamp=timestamp) for offset in offsets)
    return legacy(
        magic,
        offsets[-1],
        timestamp=timestamp,
        key=None,
        value=gzip.compress(inner, mtime=0),
        codec=1,
    )


def unstamped(batch: bytes) -> bytes:
    """As a client sends it: offset and leader epoch are the leader's to fill in, and outside of the
    CRC.
    """
    return (
        FRAME.pack(0, len(batch) - FRAME.size)
        + (-1).to_bytes(4, "big", signed=True)
        + batch[MAGIC_AT:]
    )
