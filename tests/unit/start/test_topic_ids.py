"""Topic ids that contradict each other, on a broker with ZooKeeper.

Observed with Kafka 3.9.2 and ZooKeeper: a partition whose `partition.metadata` has the id of
another topic is loaded, and gets no leader.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.unit.start.test_broker import log_of, start_of
from winnow.logdir.names import META_PROPERTIES, PARTITION_METADATA
from winnow.start.values import Fate


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = copy_log_dir("clean", tmp_path / "kafka", only=["c-tomb-0", "d-time-0", "c-none-0"])
    meta = path / META_PROPERTIES
    text = meta.read_text().replace("version=1", "version=0").replace("node.id", "broker.id")
    meta.write_text(text)
    return path


def test_sound_ids_promise_a_start(log_dir: Path) -> None:
    assert start_of(log_dir).is_safe


def test_start_is_unknown_if_two_topics_have_the_same_id(log_dir: Path) -> None:
    data = (log_dir / "d-time-0" / PARTITION_METADATA).read_bytes()
    (log_dir / "c-tomb-0" / PARTITION_METADATA).write_bytes(data)
    start = start_of(log_dir)
    assert (start.fate, start.is_safe) == (Fate.UNKNOWN, False)
    assert log_of(start, "c-tomb-0").reason.startswith("its topic id is also that of d-time:")
    assert log_of(start, "d-time-0").fate is Fate.UNKNOWN
    assert log_of(start, "c-none-0").fate is Fate.LOADS


def test_no_start_is_promised_where_one_topic_has_two_ids(log_dir: Path) -> None:
    copy_tree(log_dir / "c-tomb-0", log_dir / "d-time-1")
    (log_dir / "c-tomb-0").rename(log_dir / "away-0")
    (log_dir / "away-0" / PARTITION_METADATA).unlink()
    start = start_of(log_dir)
    assert "several topic ids" in log_of(start, "d-time-1").reason
    assert log_of(start, "away-0").fate is Fate.LOADS
