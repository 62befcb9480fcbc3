"""A directory or a file that may not be read concerns no more than a broker would lose with it."""

from __future__ import annotations

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
