"""Entries of the metadata log's directory that a node takes for snapshots.

Real brokers judge the same states in `tests/kafka/starts`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.start.test_broker import METADATA, start_of
from winnow.logdir.names import SnapshotName, parse_snapshot_name
from winnow.start.values import Fate

STEM = f"{7:020d}-{3:010d}"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    copy_base("4.3.1", "alone", tmp_path / "r")
    return tmp_path / "r" / "a"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{STEM}.checkpoint", SnapshotName(7, 3, is_whole=True)),
        (f"{STEM}-123.checkpoint.part", SnapshotName(7, 3, is_whole=False)),
        (f"{STEM}.checkpoint.deleted", SnapshotName(7, 3, is_whole=False)),
        (f"{STEM} (1).checkpoint", SnapshotName(7, 3, is_whole=True)),
        (f"{STEM.replace('-', 'x')}.checkpoint", SnapshotName(7, 3, is_whole=True)),
        (f"-{7:019d}-+{3:09d}.checkpoint", SnapshotName(-7, 3, is_whole=True)),
        ("\u0660" * 31 + ".checkpoint", SnapshotName(0, 0, is_whole=True)),
        (f"{STEM}.checkpoint.bak", None),
        ("leader-epoch-checkpoint", None),
        ("quorum-state", None),
    ],
)
def test_name_is_read_as_a_node_does(name: str, expected: SnapshotName | None) -> None:
    assert parse_snapshot_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap.checkpoint",
        ".checkpoint",
        "5-1.checkpoint",
        f"old-{STEM}.checkpoint",
        f"{7:020d}-.checkpoint",
        f"{7:020d}-{2**31}.checkpoint",
        f"{2**64:020d}-{3:010d}.checkpoint",
        f"{7:020d}\U0001f600{3:010d}.checkpoint",
        f"{7:020d}-1_000_0000.checkpoint",
        "abc.checkpoint.part",
        "abc.checkpoint.deleted",
    ],
)
def test_name_at_which_a_node_ends_stops_it_and_is_named(log_dir: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"checkpoint"):
        parse_snapshot_name(name)
    (log_dir / METADATA / name).touch()
    start = start_of(log_dir)
    assert start.fate is Fate.STOPS
    assert f"a node ends at the name {name}" in start.reasons[0]


def test_directory_in_place_of_the_newest_snapshot_costs_the_log(log_dir: Path) -> None:
    name = f"{100000:020d}-{9:010d}.checkpoint"
    (log_dir / METADATA / name).mkdir()
    start = start_of(log_dir)
    assert start.fate is Fate.STOPS
    assert "it is a directory. It deletes the log before it ends" in start.reasons[0]


@pytest.mark.parametrize("ending", ["part", "deleted"])
def test_node_can_not_remove_a_directory_with_files(log_dir: Path, ending: str) -> None:
    directory = log_dir / METADATA / f"{STEM}.checkpoint.{ending}"
    directory.mkdir()
    assert start_of(log_dir).is_safe
    (directory / "x").touch()
    assert start_of(log_dir).fate is Fate.STOPS


def test_copy_of_a_snapshot_under_a_name_with_its_offset_is_no_harm(log_dir: Path) -> None:
    newest = max((log_dir / METADATA).glob("*.checkpoint"))
    shutil.copy(newest, newest.with_name(f"{newest.stem} (1).checkpoint"))
    assert start_of(log_dir).is_safe
    newest.unlink()
    start = start_of(log_dir)
    assert (start.fate, start.is_safe) == (Fate.UNKNOWN, False)
    assert f"there is no {newest.name}" in start.reasons[0]


def test_snapshot_of_a_higher_epoch_is_newer_whatever_its_offset(log_dir: Path) -> None:
    newest = max((log_dir / METADATA).glob("*.checkpoint"))
    name = f"{10:020d}-{99:010d}.checkpoint"
    shutil.copy(newest, newest.with_name(name))
    start = start_of(log_dir)
    assert (start.fate, start.is_safe) == (Fate.UNKNOWN, False)
    assert f"takes {name} for its newest snapshot" in start.reasons[0]
