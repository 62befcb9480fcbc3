"""A directory or a file that may not be read concerns no more than a broker would lose with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.kafka.starts.rights import without_rights
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.policy.sources import Settings
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart, Fate
from winnow.storage.places import Places
from winnow.verbs.verify.directories import find_log_dirs

METADATA = "__cluster_metadata-0"
NAMES = {
    "the log directory": (".", True, Fate.OFFLINE),
    "meta.properties": ("meta.properties", True, Fate.OFFLINE),
    "a checkpoint": ("recovery-point-offset-checkpoint", False, Fate.OFFLINE),
    "a partition": ("d-time-0", False, Fate.OFFLINE),
    "partition.metadata": ("d-time-0/partition.metadata", False, Fate.OFFLINE),
    "the marker": (".kafka_cleanshutdown", False, Fate.LOADS),
    "the metadata log": (f"../a/{METADATA}", False, Fate.STOPS),
    "quorum-state": (f"../a/{METADATA}/quorum-state", False, Fate.STOPS),
}


@pytest.fixture
def log_dirs(tmp_path: Path) -> Iterator[list[Path]]:
    """Two of one broker."""
    first = copy_log_dir("clean", tmp_path / "a", only=("c-tomb-0", METADATA))
    second = copy_log_dir("clean", tmp_path / "b", only=("d-time-0",))
    meta = second / "meta.properties"
    kept = (line for line in meta.read_text().splitlines() if "directory.id" not in line)
    meta.write_text("".join(f"{line}\n" for line in kept))
    yield [first, second]
    for path in (first, second, *first.iterdir(), *second.iterdir()):
        path.chmod(0o755)


def seen(paths: list[Path]) -> tuple[tuple[LogDir, ...], BrokerStart]:
    with without_rights():
        dirs = survey_log_dirs(Places(), [str(path) for path in paths])
        (start,) = expected_starts(None, dirs, Settings(), now=1_800_000_000_000)
    return dirs, start


@pytest.mark.parametrize("what", NAMES)
def test_what_may_not_be_read_leaves_the_other_directory_as_it_is(
    log_dirs: list[Path], what: str
) -> None:
    name, in_doubt, fate = NAMES[what]
    (log_dirs[1] / name).chmod(0)
    (first, second), start = seen(log_dirs)
    assert (first.in_doubt, first.error, second.in_doubt) == (False, None, in_doubt)
    assert [str(one) for one in first.partitions] == ["c-tomb-0"]
    assert start.fate is fate
    with without_rights():
        found, others = find_log_dirs(Places(), [str(path) for path in log_dirs])
    assert found[0] == str(log_dirs[0])
    assert len(found) + len(others) == 2


@pytest.mark.parametrize(
    ("name", "is_clean", "fate"),
    [
        (".lock", True, Fate.OFFLINE),
        ("d-time-0/leader-epoch-checkpoint.tmp", True, Fate.OFFLINE),
        (f"d-time-0/{0:020d}.txnindex", True, Fate.OFFLINE),
        (f"d-time-0/{0:020d}.index", True, Fate.LOADS),
        (f"d-time-0/{0:020d}.index", False, Fate.OFFLINE),
        ("recovery-point-offset-checkpoint", True, Fate.LOADS),
        ("replication-offset-checkpoint.tmp", True, Fate.OFFLINE),
    ],
)
def test_file_that_the_broker_writes_when_it_starts(
    log_dirs: list[Path], name: str, *, is_clean: bool, fate: Fate
) -> None:
    """Brokers judge the same states in `tests/kafka/starts` (`unwritable.py`)."""
    path = log_dirs[1] / name
    path.touch()
    path.chmod(0o444)
    if not is_clean:
        (log_dirs[1] / ".kafka_cleanshutdown").unlink()
        (log_dirs[1] / "recovery-point-offset-checkpoint").unlink()
    _, start = seen(log_dirs)
    assert start.log_dirs[1].fate is fate


def test_directory_in_place_of_new_leader_epochs_takes_the_log_directory_offline(
    log_dirs: list[Path],
) -> None:
    (log_dirs[1] / "d-time-0" / "leader-epoch-checkpoint.tmp").mkdir()
    assert seen(log_dirs)[1].log_dirs[1].fate is Fate.OFFLINE


def test_user_of_the_broker_is_unknown_where_another_one_writes_the_high_watermarks(
    log_dirs: list[Path],
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to change owners")
    other = 12_345
    log_dirs[1].chmod(0o777)
    os.chown(log_dirs[1], other, 0)
    found = seen(log_dirs)[1].log_dirs[1]
    assert (found.fate, "it is not known whether" in found.logs[0].reason) == (Fate.UNKNOWN, True)
    os.chown(log_dirs[1] / "replication-offset-checkpoint", other, 0)
    assert seen(log_dirs)[1].log_dirs[1].fate is Fate.OFFLINE
