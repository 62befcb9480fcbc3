"""The log directories of a running broker are read together: the broker moves partitions between
them (S8.11).
"""

from __future__ import annotations

import re
import shutil
import threading
from itertools import cycle
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.lock_holder import broker
from tests.threads import in_threads
from winnow.logdir.live.broker import RunningBroker
from winnow.logdir.live.read_view import open_read_views, view_notes

PARTITION = "c-tomb-0"
BROKER = RunningBroker("a broker")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "log-dir", only=[PARTITION, "d-time-0"])


def test_moved_partition_is_in_exactly_one_read_view(log_dir: Path, tmp_path: Path) -> None:
    """Kafka gives the new directory its name before it takes that of the old one away."""
    dirs = [log_dir, copy_log_dir("clean", tmp_path / "other", only=["d-time-0"])]
    (dirs[1] / "d-time-0").rename(dirs[1] / "d-other-0")
    both = [str(one) for one in dirs]
    stop = threading.Event()

    def move() -> None:
        for old, new in cycle((dirs, dirs[::-1])):
            if stop.is_set():
                return
            copy_tree(old / PARTITION, new / "moving")
            (new / "moving").rename(new / PARTITION)
            (old / PARTITION).rename(old / "gone")
            shutil.rmtree(old / "gone")

    with broker(dirs[0]), broker(dirs[1]), in_threads(stop, [move]):
        for _ in range(20):
            with open_read_views(dict.fromkeys(both, BROKER)) as views:
                holding = [view.root for view in views if PARTITION in view.directories[view.root]]
                assert len(holding) == 1, view_notes()
                assert all("all of it was read" in note for note in view_notes())


def test_replicas_of_two_brokers_are_in_both_read_views(log_dir: Path, tmp_path: Path) -> None:
    other = copy_log_dir("clean", tmp_path / "other", only=[PARTITION])
    meta = other / "meta.properties"
    meta.write_text(re.sub(r"(?m)^(node|broker).id=.*", r"\1.id=77", meta.read_text()))
    both = dict.fromkeys([str(log_dir), str(other)], BROKER)
    with broker(log_dir), broker(other), open_read_views(both) as views:
        assert all(PARTITION in view.directories[view.root] for view in views)


def test_duplicate_directory_that_is_not_moved_is_in_both_read_views(
    log_dir: Path, tmp_path: Path
) -> None:
    """As made by hand: a broker does not start on them."""
    other = copy_log_dir("clean", tmp_path / "other", only=[PARTITION])
    both = dict.fromkeys([str(log_dir), str(other)], BROKER)
    with broker(log_dir), broker(other), open_read_views(both) as views:
        assert all(PARTITION in view.directories[view.root] for view in views)
