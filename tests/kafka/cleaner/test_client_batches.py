"""What a client can write does not stop a cleaning: each batch goes through the checks of a broker
(`LogValidator`), and then Kafka's cleaner and Winnow clean the same log.

Random batches have odd fields of records, in all codecs. In the others, each has one odd thing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.client_batches import LEAST_INT, Odd, batch, drawn, number, sized
from tests.kafka.cleaner.runs import run_winnow, write_checkpoint
from tests.kafka.judge.judge import Kafka, Line
from tests.log_writer.dir_writer import LogDirWriter
from winnow.cleaning.result import PartitionResult
from winnow.wire.batch import Codec
from winnow.wire.codecs import compress
from winnow.wire.plain import Record

pytestmark = pytest.mark.spark

NOW = 1_800_000_000_000
WRITTEN = NOW - 5000
MANY = 80
"""Random batches."""

AFTER = {"none": (), "a": (b"a",), "b": (b"b",), "both": (b"a", b"b")}
"""Which keys have a later record."""


def _two(first: Odd, second: Odd | None = None, codec: Codec = Codec.NONE, **more: Any) -> bytes:
    """A batch of an odd record with the key a, and a second one with the key b."""
    other = Odd(key=sized(b"b")).at(1) if second is None else second
    payload = compress(codec, first.encoded() + other.encoded())
    attributes = int(codec) | more.pop("attributes", 0)
    return batch(payload, 2, now=WRITTEN, attributes=attributes, **more)


def _at(first: int, second: int) -> bytes:
    return _two(Odd().at(first), Odd(key=sized(b"b")).at(second))


def _headers(*parts: bytes) -> bytes:
    return b"".join((number(len(parts) // 2), *parts))


NULLS = {
    f"{name}-{codec.name.lower()}": _two(Odd(**{field: data}), codec=codec)
    for name, field, data in (
        ("value-2", "value", number(-2)),
        ("least-value", "value", number(LEAST_INT)),
        ("long-value-1", "value", b"\x81\x80\x80\x80\x7f"),
        ("key-2", "key", number(-2)),
        ("header-value-2", "headers", _headers(sized(b"h"), number(-2))),
    )
    for codec in Codec
}
TIMESTAMPS = {
    "base-5": _two(Odd(), base_timestamp=-5),
    "delta-to-2": _two(Odd(timestamp=number(-WRITTEN - 2))),
    "delta-to-2-lz4": _two(Odd(timestamp=number(-WRITTEN - 2)), codec=Codec.LZ4),
    "horizon-9": _two(Odd(), attributes=0x40, base_timestamp=-9),
    "tombstone-5": _two(Odd(value=number(-1)), base_timestamp=-5),
}

OFFSETS = {
    "swapped": _at(1, 0),
    "all-0": _at(0, 0),
    "all-1": _at(1, 1),
    "below": _at(-1, 1),
    "far": _at(0, 1000),
    "far-below": _at(-5, -3),
    "one-key": _two(Odd().at(1), Odd().at(0)),
}


UNWRITABLE = {
    *(f"{name}.{after}" for name in ("base-5", "horizon-9") for after in ("a", "b")),
    *("delta-to-2.b", "delta-to-2-lz4.b"),
    *(f"tombstone-5.{after}" for after in ("none", "a", "b")),
}
"""The batch is written again, with such a record in it."""
KEPT_BY_KAFKA = {
    "far.both": ([2, 3, 4, 5], [1000, 2, 3, 4, 5]),
    "far.b": ([0, 2, 3, 4], [0, 1000, 2, 3, 4]),
    "far-below.none": ([-5, -3, 2, 3], [2, 3]),
    "far-below.a": ([-3, 2, 3, 4], [2, 3, 4]),
    "far-below.b": ([-5, 2, 3, 4], [2, 3, 4]),
    "one-key.none": ([1, 2, 3], [1, 0, 2, 3]),
    "one-key.b": ([1, 2, 3, 4], [1, 0, 2, 3, 4]),
}
"""Offsets left by Winnow and by Kafka where these differ (Ours, S5.5)."""


@dataclass(frozen=True, slots=True)
class Both:
    """Logs that Kafka and Winnow have cleaned."""

    ours: Path
    theirs: Path
    accepted: Mapping[str, Line]
    cleaned: Mapping[str, Line]
    results: Mapping[str, PartitionResult]
    kafka: Kafka

    def winnow_cleaned(self, name: str) -> bool:
        result = self.results[f"{name}-0"]
        assert result.error is None, f"{name}: {result.error}"
        return "compacted" in result.actions

    def records(self, name: str) -> tuple[list[Line], list[Line]]:
        """What Winnow left, and what Kafka left: batches and records."""
        ours, theirs = (self._read(home / f"{name}-0") for home in (self.ours, self.theirs))
        return ours, theirs

    def _read(self, directory: Path) -> list[Line]:
        lines = self.kafka.dump(directory, aux=False)
        dropped = {"pos", "size", "crc", "bytes"}
        return [
            {name: value for name, value in line.items() if name not in dropped} for line in lines
        ]


def _drawn() -> dict[str, bytes]:
    rng = random.Random(45)
    return {f"drawn{n}": drawn(rng, WRITTEN) for n in range(MANY)}


@pytest.fixture(scope="module")
def both(spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Both:
    home = tmp_path_factory.mktemp("client")
    ours, theirs, alone = home / "ours", home / "theirs", home / "alone"
    alone.mkdir()
    batches = {f"{name}.b": data for name, data in NULLS.items()}
    batches |= {
        f"{name}.{after}": data for name, data in (TIMESTAMPS | OFFSETS).items() for after in AFTER
    }
    batches |= {f"{name}.a": data for name, data in _drawn().items()}
    ends = {}
    with LogDirWriter(ours, clock=lambda: NOW) as log_dir:
        for topic, data in batches.items():
            (alone / topic).write_bytes(data)
            log = log_dir.partition(topic, 0)
            log.append(data)
            for key in (*AFTER[topic.rpartition(".")[2]], b"z"):
                log.append_records([Record(0, WRITTEN, key, b"new")])
            log.roll()
            log.append_records([Record(0, WRITTEN, b"y", b"active")])
            ends[f"{topic}-0"] = log.log_end_offset
    write_checkpoint(ours / "replication-offset-checkpoint", ends)
    copy_tree(ours, theirs)
    accepted = kafka.accept(alone / topic for topic in batches)
    cleaned = kafka.clean_each(
        (theirs / f"{topic}-0" for topic in batches), now=NOW, policy="compact", first_dirty=0
    )
    results = run_winnow(
        spark,
        ours,
        now=NOW,
        topic_configs="".join(f"{topic} cleanup.policy=compact\n" for topic in batches),
        topic_sets=["*:min.cleanable.dirty.ratio=0"],
    )
    return Both(
        *(ours, theirs),
        {path.name: line for path, line in accepted.items()},
        {path.name.removesuffix("-0"): line for path, line in cleaned.items()},
        *(results, kafka),
    )


def _cases(batches: Mapping[str, bytes]) -> list[str]:
    return [f"{name}.{after}" for name in batches for after in AFTER]


@pytest.mark.parametrize("odd", NULLS)
def test_any_negative_length_is_null_as_in_kafka(odd: str, both: Both) -> None:
    name = f"{odd}.b"
    assert both.accepted[name]["unchanged"]
    assert "error" not in both.cleaned[name]
    assert both.winnow_cleaned(name)
    ours, theirs = both.records(name)
    assert ours == theirs


@pytest.mark.parametrize("name", _cases(TIMESTAMPS))
def test_timestamps_that_fail_kafkas_cleaner_stop_no_cleaning(name: str, both: Both) -> None:
    assert both.accepted[name]["unchanged"]
    assert both.winnow_cleaned(name)
    problem = both.cleaned[name].get("error", "")
    assert ("Invalid negative timestamp" in problem) == (name in UNWRITABLE)
    ours, theirs = both.records(name)
    if not problem:
        assert ours == theirs


@pytest.mark.parametrize("name", _cases(OFFSETS))
def test_offsets_in_any_order_stop_no_cleaning(name: str, both: Both) -> None:
    assert both.accepted[name]["unchanged"]
    assert both.winnow_cleaned(name)
    ours, theirs = both.records(name)
    expected = KEPT_BY_KAFKA.get(name)
    if "error" in both.cleaned[name]:
        assert "maxOffset undefined" in both.cleaned[name]["error"]
        assert (name, _offsets(ours)) == ("below.b", [-1, 2, 3, 4])
    elif expected is None:
        assert ours == theirs
    else:
        assert (_offsets(ours), _offsets(theirs)) == expected


def test_random_batches_are_cleaned_if_kafka_cleans_them(both: Both) -> None:
    """No offset is odd in them, so what is left is alike as well."""
    outcomes = set()
    for n in range(MANY):
        name = f"drawn{n}.a"
        problem = both.cleaned[name].get("error", "")
        cleaned = both.results[f"{name}-0"].error is None
        # Kafka reads a timestamp below -1, but does not write it (Ours, S5.6).
        assert cleaned == (not problem or "Invalid negative timestamp" in problem), (n, problem)
        if not problem:
            ours, theirs = both.records(name)
            assert ours == theirs, n
        outcomes.add(("refused" in both.accepted[name], problem != "", cleaned))
    assert {(False, False, True), (False, True, True), (True, True, False)} <= outcomes


def _offsets(lines: list[Line]) -> list[int]:
    return [line["o"] for line in lines if line["t"] == "rec"]
