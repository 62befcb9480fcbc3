"""A replica that was being moved between log directories, and a log with the id of another topic.

Real brokers judge the same states in `tests/kafka/starts`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart, Fate
from winnow.storage.places import Places

METADATA = "__cluster_metadata-0"
PARTITIONS = ("c-tomb-0", "d-time-0", METADATA)
FUTURE = "c-tomb-0.0123456789abcdef0123456789abcdef-future"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAZg"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """The controller means it: the metadata log has its directory.id for each partition."""
    path = copy_log_dir("clean", tmp_path / "kafka", only=PARTITIONS)
    remove_other_topics(path)
    return path


@pytest.fixture
def second(log_dir: Path) -> Path:
    """Another log directory of the broker."""
    path = log_dir.parent / "second"
    path.mkdir()
    lines = (log_dir / "meta.properties").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id")]
    (path / "meta.properties").write_text("\n".join([*kept, f"directory.id={OTHER_ID}\n"]))
    (path / ".kafka_cleanshutdown").touch()
    return path


def start_of(*paths: Path) -> BrokerStart:
    dirs = survey_log_dirs(Places(), [str(path) for path in paths])
    (found,) = expected_starts(None, dirs, Settings(), now=1_800_000_000_000)
    return found


def shorten(directory: Path) -> None:
    for path in directory.glob(f"{max(directory.glob('*.log')).stem}.*"):
        path.unlink()


def test_future_log_beside_its_current_log_keeps_the_broker_from_starting(log_dir: Path) -> None:
    copy_tree(log_dir / "c-tomb-0", log_dir / FUTURE)
    start = start_of(log_dir)
    assert start.fate is Fate.STOPS
    assert f"{log_dir}/{FUTURE} is to take the place of c-tomb-0" in "".join(start.reasons)


def test_future_log_elsewhere_that_is_meant_replaces_a_current_log_that_is_not_longer(
    log_dir: Path, second: Path
) -> None:
    copy_tree(log_dir / "c-tomb-0", second / "c-tomb-0")
    (log_dir / "c-tomb-0").rename(log_dir / FUTURE)
    assert start_of(log_dir, second).is_safe
    shorten(log_dir / FUTURE)
    start = start_of(log_dir, second)
    [lost] = start.logs(Fate.LOSES)
    assert (lost.log_dir, lost.name) == (str(second), "c-tomb-0")
    assert f"the controller means {log_dir}/{FUTURE}" in lost.reason


def test_future_log_that_is_not_meant_replaces_nothing(log_dir: Path, second: Path) -> None:
    copy_tree(log_dir / "c-tomb-0", second / FUTURE)
    shorten(second / FUTURE)
    assert start_of(log_dir, second).is_safe


def test_future_log_beside_its_current_log_takes_the_directory_offline_with_zookeeper_only(
    log_dir: Path, second: Path
) -> None:
    copy_tree(log_dir / "c-tomb-0", second / FUTURE)
    (log_dir / "c-tomb-0").rename(second / "c-tomb-0")
    assert start_of(log_dir, second).is_safe  # the controller means another directory
    shutil.rmtree(log_dir / METADATA)
    for path in (log_dir, second):
        (path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    start = start_of(log_dir, second)
    [log] = start.logs(Fate.OFFLINE)
    assert (log.log_dir, log.name, start.of_broker) == (str(second), "c-tomb-0", Fate.LOADS)
    assert "takes the log directory offline when it renames it" in log.reason


def test_log_with_the_id_of_another_topic_may_leave_all_partitions_without_a_leader(
    log_dir: Path,
) -> None:
    ours, other = (log_dir / name / "partition.metadata" for name in ("c-tomb-0", "d-time-0"))
    ours.write_bytes(other.read_bytes())
    start = start_of(log_dir)
    assert (start.fate, start.of_broker) == (Fate.NOT_SERVED, Fate.NOT_SERVED)
    [reason] = start.reasons
    assert reason.startswith("at c-tomb-0 the broker gives up making leaders")
    assert "possibly all" in reason


def test_future_log_without_a_record_may_be_set_aside(log_dir: Path, second: Path) -> None:
    """A broker that is killed when it begins a move leaves such a directory."""
    (second / FUTURE).mkdir()
    start = start_of(log_dir, second)
    assert [log.name for log in start.logs(Fate.SET_ASIDE)] == [FUTURE]
    assert start.is_safe
    (second / FUTURE).rmdir()
    copy_tree(log_dir / "c-tomb-0", second / FUTURE)
    (second / FUTURE / "partition.metadata").unlink()
    assert not start_of(log_dir, second).is_safe
