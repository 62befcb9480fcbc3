"""A broker follows symbolic links, Winnow does not. What is behind a link is unknown, and nothing
else is. `tests/kafka/starts` has brokers that start on a linked partition.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart, Fate
from winnow.storage.places import Places

METADATA = "__cluster_metadata-0"
LINKED = [
    "meta.properties",
    "bootstrap.checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    METADATA,
    f"{METADATA}/quorum-state",
    f"{METADATA}/{0:020d}.log",
    "c-tomb-0",
    "c-tomb-0/partition.metadata",
    "c-tomb-0/leader-epoch-checkpoint",
]
"""Broker 4.3.1 started normally on each of them."""


@pytest.fixture
def log_dirs(tmp_path: Path) -> list[Path]:
    """Two of one broker."""
    first = copy_log_dir("clean", tmp_path / "a", only=("c-tomb-0", METADATA))
    second = copy_log_dir("clean", tmp_path / "b", only=("d-time-0",))
    remove_other_topics(first, second)
    meta = second / "meta.properties"
    kept = (line for line in meta.read_text().splitlines() if "directory.id" not in line)
    meta.write_text("".join(f"{line}\n" for line in kept))
    return [first, second]


def start_of(log_dirs: list[Path]) -> BrokerStart:
    dirs = survey_log_dirs(Places(), [str(path) for path in log_dirs])
    (start,) = expected_starts(None, dirs, Settings(), now=1_800_000_000_000)
    return start


def link(path: Path) -> Path:
    target = path.parents[1] / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    return target


@pytest.mark.parametrize("name", LINKED)
def test_start_on_a_link_is_neither_promised_nor_called_harmful(
    log_dirs: list[Path], name: str
) -> None:
    link(log_dirs[0] / name)
    start = start_of(log_dirs)
    assert (start.fate, start.is_safe) == (Fate.UNKNOWN, False)
    assert not start.is_harmful
    [other] = start.log_dirs[1].logs
    assert (other.name, other.fate) == ("d-time-0", Fate.LOADS)


def test_linked_metadata_log_is_named_with_its_target_and_hides_no_partition(
    log_dirs: list[Path],
) -> None:
    target = link(log_dirs[0] / METADATA)
    start = start_of(log_dirs)
    [reason] = start.reasons
    assert reason.startswith(f"{log_dirs[0]}/{METADATA} is a symbolic link to {target}, which ")
    assert "Mount the target in place of the link" in reason
    fates = {log.name: log.fate for one in start.log_dirs for log in one.logs}
    assert fates == {"c-tomb-0": Fate.LOADS, "d-time-0": Fate.LOADS}


def test_settings_of_a_linked_metadata_log_are_unknown_for_one_reason(
    log_dirs: list[Path],
) -> None:
    target = link(log_dirs[0] / METADATA)
    dirs = survey_log_dirs(Places(), [str(path) for path in log_dirs])
    settings, [note] = with_metadata(Settings(), Places(), dirs)
    words = f"{METADATA} can't be read: it is a symbolic link to {target}, which Winnow does not"
    assert words in note
    assert settings.metadata is not None
    assert words in (settings.metadata.why_unknown("c-tomb") or "")


@pytest.mark.parametrize("target", ["nowhere", "a/meta.properties"])
def test_metadata_log_that_leads_to_no_directory_keeps_the_broker_from_starting(
    log_dirs: list[Path], target: str
) -> None:
    """Broker 4.3.1: FileAlreadyExistsException."""
    (log_dirs[0] / METADATA).rename(log_dirs[0].parent / "elsewhere")
    (log_dirs[0] / METADATA).symlink_to(log_dirs[0].parent / target)
    start = start_of(log_dirs)
    assert (start.fate, start.is_harmful) == (Fate.STOPS, True)
    assert "a symbolic link that leads to no directory" in start.reasons[0]
