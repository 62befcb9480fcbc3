"""Cleaner entries of partitions that somebody moved between log directories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.kafka.cleaner.runs import read_checkpoint, write_checkpoint
from winnow.logdir.cleaner_entries import Misplaced, gather_entry, misplaced_entries
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
CLEANER = "cleaner-offset-checkpoint"
T = TopicPartition("t", 0)


def made(path: Path, *partitions: str, cleaner: Mapping[str, int], node_id: int = 1) -> Path:
    for name in partitions:
        (path / name).mkdir(parents=True)
    path.mkdir(exist_ok=True)
    (path / "meta.properties").write_text(f"version=1\nnode.id={node_id}\ncluster.id=c\n")
    write_checkpoint(path / CLEANER, cleaner)
    return path


def surveyed(*paths: Path) -> tuple[LogDir, ...]:
    return survey_log_dirs(STORAGE, [str(path) for path in paths])


def test_entry_of_a_moved_partition_applies_in_its_new_directory(tmp_path: Path) -> None:
    old = made(tmp_path / "old", "u-0", cleaner={"t-0": 7, "u-0": 3})
    new = made(tmp_path / "new", "t-0", cleaner={})
    first, second = dirs = surveyed(old, new)
    assert second.checkpoints.cleaner == {T: 7}
    assert first.checkpoints.cleaner[TopicPartition("u", 0)] == 3
    (entry,) = misplaced_entries(dirs)
    assert entry == Misplaced(topic_partition=T, home=str(new), named_in=(str(old),))
    assert not entry.doubled
    gather_entry(STORAGE, entry, 7)
    assert (read_checkpoint(old / CLEANER), read_checkpoint(new / CLEANER)) == (
        {"u-0": 3},
        {"t-0": 7},
    )
    assert misplaced_entries(surveyed(old, new)) == ()


def test_lower_of_two_entries_applies_and_the_other_is_removed(tmp_path: Path) -> None:
    for number, (stale, current) in enumerate([(7, 9), (9, 7)]):
        old = made(tmp_path / f"old{number}", cleaner={"t-0": stale})
        new = made(tmp_path / f"new{number}", "t-0", cleaner={"t-0": current})
        dirs = surveyed(old, new)
        assert dirs[1].checkpoints.cleaner == {T: 7}
        (entry,) = misplaced_entries(dirs)
        assert entry.doubled
        gather_entry(STORAGE, entry, 7)
        assert (read_checkpoint(old / CLEANER), read_checkpoint(new / CLEANER)) == ({}, {"t-0": 7})


def test_entries_of_another_broker_are_separate(tmp_path: Path) -> None:
    one = made(tmp_path / "one", "t-0", cleaner={"t-0": 7})
    other = made(tmp_path / "other", "t-0", cleaner={"t-0": 9}, node_id=2)
    dirs = surveyed(one, other)
    assert [log_dir.checkpoints.cleaner for log_dir in dirs] == [{T: 7}, {T: 9}]
    assert misplaced_entries(dirs) == ()


def test_entry_of_an_absent_partition_is_reported_only_if_doubled(
    tmp_path: Path,
) -> None:
    one, other = (
        made(tmp_path / "one", cleaner={"t-0": 7, "u-0": 1}),
        made(tmp_path / "other", cleaner={"t-0": 7}),
    )
    (entry,) = misplaced_entries(surveyed(one, other))
    assert (entry.topic_partition, entry.home, entry.doubled) == (T, None, True)
    gather_entry(STORAGE, entry, 7)
    assert read_checkpoint(one / CLEANER) == {"t-0": 7, "u-0": 1}
