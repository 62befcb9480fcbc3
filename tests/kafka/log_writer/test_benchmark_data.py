"""Kafka loads the benchmark data without complaint and finds the shape that its name says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.cases import CASES, Case, Shape
from benchmarks.data import NOW, fresh_copy, made_in, make
from benchmarks.shapes import COMMITTED, GROUPS, universe_factor
from tests.kafka.judge.judge import Kafka

RAW_BYTES = 2 << 20
RECORDS, FEW_PARTITIONS = 150, 4
"""At least so many, of large values; at most so many, of small partitions."""
SEGMENT_BYTES = 1 << 20
"""The least that a topic may be configured to have."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kafka_finds_the_named_shape(case: Case, kafka: Kafka, tmp_path: Path) -> None:
    root = tmp_path / "made"
    root.mkdir()
    case = replace(case, partitions=min(case.partitions, FEW_PARTITIONS))
    make(case, max(RAW_BYTES, RECORDS * case.value_bytes), root, segment_bytes=SEGMENT_BYTES)
    data = made_in(case, root)
    copied = fresh_copy(data, tmp_path / "copy")
    records = 0
    for partition in data.partitions:
        loaded = kafka.load(copied / partition.name, now=NOW)
        assert loaded.error is None
        records += len(loaded.records)
        if case.batch_records is not None:
            sizes = [line["count"] for line in loaded.lines if line["t"] == "batch"]
            assert max(sizes) == case.batch_records
            assert sum(sizes) > 0.99 * case.batch_records * len(sizes)
        (answer,) = kafka.clean(
            copied / partition.name, now=NOW, topic_configs=data.topic_configs, hw_checkpoint=True
        )
        if case.shape is Shape.NOTHING:
            assert answer["rounds"] == []
            continue
        (done,) = answer["rounds"]
        stays = done["messages_written"] / done["messages_read"]
        if case.shape is Shape.HALF:
            assert done["dirty_ratio"] == 1
            assert stays == pytest.approx(case.unique, abs=max(0.02, done["messages_read"] ** -0.5))
        elif case.shape is Shape.OFFSETS:
            assert done["messages_written"] == GROUPS * COMMITTED
        else:
            assert done["dirty_ratio"] == pytest.approx(0.05, abs=0.02)
            assert stays == pytest.approx(0.95, abs=0.02)
    assert records == data.records


def test_half_of_the_drawn_keys_are_new() -> None:
    assert universe_factor(0.5) == pytest.approx(0.6275, abs=1e-3)
