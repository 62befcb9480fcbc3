"""Ranges that were planned beside a running broker, whose segments it then replaces or removes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tests.fixtures.data import copy_log_dir
from tests.lock_holder import broker
from winnow.errors import CorruptLogError, WinnowError
from winnow.kafka_log.options import parse_options
from winnow.kafka_log.ranges import Task, plan_tasks
from winnow.kafka_log.read import read_task
from winnow.kafka_log.schema import SCHEMA
from winnow.logdir.lock import live_read_views
from winnow.storage.places import Places

TOPIC = "c-tomb"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "log-dir", only=[f"{TOPIC}-0"])


def planned(log_dir: Path) -> list[Task]:
    options = parse_options({"path": str(log_dir), "maxBytesPerPartition": "4096"})
    with live_read_views([str(log_dir)]):
        return plan_tasks(Places(), options)


def offsets_of(log_dir: Path, tasks: Iterable[Task], *more: Path) -> list[int]:
    options = parse_options(
        {"paths": json.dumps([str(one) for one in (log_dir, *more)]), "mode": "FAILFAST"}
    )
    schema = to_arrow_schema(SCHEMA, timezone="UTC")
    found = []
    for task in tasks:
        for batch in read_task(Places(), options, schema, task):
            found += batch.column("offset").to_pylist()
    return found


def segments_of(log_dir: Path) -> list[Path]:
    return sorted((log_dir / f"{TOPIC}-0").glob("*.log"))


def test_range_of_a_replaced_segment_is_read_from_the_new_segment(log_dir: Path) -> None:
    with broker(log_dir):
        tasks = planned(log_dir)
        expected = offsets_of(log_dir, tasks)
        for log in segments_of(log_dir)[:-1]:
            copy = log.with_suffix(".copy")
            copy.write_bytes(log.read_bytes())
            copy.replace(log)  # as the cleaner puts a segment in the place of others
        assert offsets_of(log_dir, tasks) == expected
    with pytest.raises(WinnowError, match="has changed since the DataFrame was planned"):
        offsets_of(log_dir, tasks)


def test_range_of_a_deleted_segment_is_empty(log_dir: Path) -> None:
    """As for a consumer that comes after retention."""
    with broker(log_dir):
        tasks = planned(log_dir)
        expected = offsets_of(log_dir, tasks)
        first, second, *_ = (log for log in segments_of(log_dir) if log.stat().st_size)
        for file in first.parent.glob(f"{first.stem}.*"):
            file.unlink()
        base = int(second.stem)
        assert offsets_of(log_dir, tasks) == [one for one in expected if one >= base]
        assert min(expected) < base


def test_range_of_a_moved_partition_is_read_from_the_other_log_dir(
    log_dir: Path, tmp_path: Path
) -> None:
    """Only if it is one of the same broker."""
    other = copy_log_dir("clean", tmp_path / "other", only=["d-time-0"])
    with broker(log_dir):
        tasks = planned(log_dir)
        expected = offsets_of(log_dir, tasks)
        (log_dir / f"{TOPIC}-0").rename(other / f"{TOPIC}-0")
        with broker(other), pytest.raises(WinnowError, match="was removed after"):
            offsets_of(log_dir, tasks, other)
        (other / ".lock").unlink()
        (other / ".lock").hardlink_to(log_dir / ".lock")
        assert offsets_of(log_dir, tasks, other) == expected


def test_truncation_by_a_follower_is_not_read_as_damage(log_dir: Path) -> None:
    """A follower truncates its log in place, and fetches other records."""
    with broker(log_dir), live_read_views([str(log_dir)]):
        tasks = planned(log_dir)
        log = max(segments_of(log_dir), key=lambda one: one.stat().st_size)
        data = log.read_bytes()
        with log.open("r+b") as file:
            file.seek(100)
            file.write(bytes(100))
        with pytest.raises(WinnowError, match="changed files of a partition while they were read"):
            offsets_of(log_dir, tasks)
        log.write_bytes(data)
    with log.open("r+b") as file:
        file.seek(100)
        file.write(bytes(100))
    with broker(log_dir), pytest.raises(CorruptLogError, match="CRC"):
        offsets_of(log_dir, planned(log_dir))
