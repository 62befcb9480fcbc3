"""A running broker removes, moves or truncates partitions after they were seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import winnow
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.lock_holder import broker
from winnow import api
from winnow.logdir import lock
from winnow.logdir.live.read_view import open_read_views
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings
from winnow.storage.live.read_view import ReadView

pytestmark = pytest.mark.spark

NOW = 1_795_990_000_000
NAMES = ["c-tomb-0", "d-time-0", "c-lz4-0"]
CHANGED = "its broker changed files while they were read, as a follower that truncates its log"


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[Path]:
    path = copy_log_dir("clean", tmp_path / "log-dir", only=NAMES)
    with broker(path):
        yield path


def afterwards(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Call `change` each time when read views have been opened."""

    @contextmanager
    def changed(*args: Any, **named: Any) -> Iterator[tuple[ReadView, ...]]:
        with open_read_views(*args, **named) as views:
            change()
            yield views

    opening: Callable[..., AbstractContextManager[tuple[ReadView, ...]]] = changed
    monkeypatch.setattr(lock, "open_read_views", opening)


def test_partition_removed_after_its_read_view_was_opened_is_still_read(
    spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = log_dir.with_name("kept")
    shutil.copytree(log_dir, kept)

    def plans() -> list[winnow.Plan]:
        configs = str(TOPIC_CONFIGS)
        return [
            winnow.plan(spark, str(log_dir), topic_configs=configs, estimate=estimate, now=NOW)
            for estimate in (False, True)
        ]

    before = plans()

    def remove() -> None:
        shutil.rmtree(log_dir / "c-lz4-0", ignore_errors=True)

    def again() -> None:
        if not (log_dir / "c-lz4-0").exists():
            shutil.copytree(kept / "c-lz4-0", log_dir / "c-lz4-0")

    real = lock.broker_on

    def broker_on(path: str) -> object:
        again()  # before a view is opened
        return real(path)

    monkeypatch.setattr(lock, "broker_on", broker_on)
    afterwards(monkeypatch, remove)
    for plan, earlier in zip(plans(), before, strict=True):
        assert [one.error for one in plan.partitions] == [None] * len(NAMES)
        assert plan.bytes_before == earlier.bytes_before
        assert plan.freed_bytes == earlier.freed_bytes
    assert winnow.explain(spark, str(log_dir), "c-lz4-0", topic_configs=str(TOPIC_CONFIGS))


def test_truncation_by_a_follower_is_not_reported_as_damage(
    spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has zeros where batches were, as another moment of it may have other bytes there."""
    log = max((log_dir / "c-lz4-0").glob("*.log"), key=lambda one: one.stat().st_size)
    data = log.read_bytes()

    def write() -> None:
        with log.open("r+b") as file:
            file.write(bytes(len(data)))

    settings = Settings(topic_configs=parse_topic_configs(TOPIC_CONFIGS.read_text()))
    configs = str(TOPIC_CONFIGS)
    with monkeypatch.context() as patch:
        afterwards(patch, write)
        plan = winnow.plan(spark, str(log_dir), topic_configs=configs, estimate=True, now=NOW)
        (one,) = (one for one in plan.partitions if one.topic == "c-lz4")
        assert (one.error, one.acts, plan.run.exit_code) == (None, False, 0)
        assert CHANGED in one.reason
        log.write_bytes(data)
        found = api.doctor(spark, str(log_dir), settings=settings, now=NOW)
        assert found.troubles == ()
    damaged = winnow.plan(spark, str(log_dir), topic_configs=configs, estimate=True, now=NOW)
    (one,) = (one for one in damaged.partitions if one.topic == "c-lz4")
    assert one.error is not None
    assert damaged.run.exit_code == 3
