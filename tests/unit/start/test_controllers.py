"""The log directory of a node that is only a controller, given beside that of a broker; and a new
one, on which no node has started.

`tests/kafka/starts/test_controllers.py` starts a real one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import META_PROPERTIES
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.start.broker import expected_starts
from winnow.start.values import Fate
from winnow.start.words import verdict
from winnow.storage.places import Places
from winnow.verbs.verify.directories import check_log_dir
from winnow.verbs.verify.kinds import Kind


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    path = copy_log_dir("clean", tmp_path / "broker", only=["c-tomb-0", METADATA_DIR])
    remove_other_topics(path)
    return path


@pytest.fixture
def controller(broker: Path, tmp_path: Path) -> Path:
    path = tmp_path / "controller"
    path.mkdir()
    copy_tree(broker / METADATA_DIR, path / METADATA_DIR)
    lines = (broker / META_PROPERTIES).read_text().splitlines()
    kept = [line for line in lines if line.startswith(("version", "cluster.id"))]
    (path / META_PROPERTIES).write_text("\n".join([*kept, "node.id=9"]))
    return path


def test_entries_that_a_controller_does_not_look_at_do_not_keep_it_from_starting(
    broker: Path, controller: Path
) -> None:
    (controller / "lost+found").mkdir()
    (controller / "notes").touch()
    log_dirs = survey_log_dirs(Places(), [str(broker), str(controller)])
    assert [log_dir.is_of_controller for log_dir in log_dirs] == [False, True]
    starts = expected_starts(None, log_dirs, Settings(), now=1_800_000_000_000)
    found = {start.node_id: start for start in starts}[9]
    assert (found.fate, verdict(found)) == (Fate.LOADS, "controller 9 starts at once")
    assert not check_log_dir(Places(), str(controller), topics=()).findings


def test_they_do_keep_a_broker_from_starting_that_has_lost_its_partitions(
    controller: Path,
) -> None:
    (controller / "lost+found").mkdir()
    (controller / "cleaner-offset-checkpoint").touch()
    [log_dir] = survey_log_dirs(Places(), [str(controller)])
    assert (log_dir.is_of_controller, len(log_dir.strangers)) == (False, 1)
    found = check_log_dir(Places(), str(controller), topics=()).findings
    assert [one.kind for one in found] == [Kind.NAME]


@pytest.mark.parametrize("checkpoints", [False, True])
def test_new_directory_of_a_node_that_is_its_own_quorum_has_lost_nothing(
    broker: Path, tmp_path: Path, *, checkpoints: bool
) -> None:
    path = tmp_path / "new"
    path.mkdir()
    (path / META_PROPERTIES).write_bytes((broker / META_PROPERTIES).read_bytes())
    if checkpoints:
        (path / "cleaner-offset-checkpoint").touch()
    text = (
        f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={path}\n"
        "controller.quorum.voters=1@localhost:9093\ncontroller.listener.names=C\n"
    )
    settings = Settings(server_properties=parse_server_properties(text))
    log_dirs = survey_log_dirs(Places(), [str(path)])
    [start] = expected_starts(None, log_dirs, settings, now=1_800_000_000_000)
    assert (start.fate is Fate.LOADS) == (not checkpoints), start
