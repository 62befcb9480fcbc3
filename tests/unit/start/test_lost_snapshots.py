"""A producer snapshot whose segment is lost shows the loss in two places: in a gap between two
segments of a log that no cleaner has compacted, and above the end of a log after a clean stop.

Everywhere else a snapshot without a segment is usual: each clean stop and each truncation writes
one at the end of the log, and where a cleaner leaves out batches, the end of a segment moves.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kafka.starts.bases import VERSIONS, copy_base
from tests.unit.start.test_broker import log_of, start_of
from winnow.cleaning.plan.settings import with_metadata
from winnow.errors import LostSegmentError
from winnow.logdir.commit.lost import LostSegment, lost_segments
from winnow.logdir.names import DELETED, LOG, SNAPSHOT, segment_file
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings, parse_topic_set
from winnow.recovery.runs.run import recover
from winnow.start.values import BrokerStart, LogStart
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places
from winnow.survey.place import PartitionPlace
from winnow.survey.survey import _list_here, list_partition

NAME, DELETES = "d-0", parse_topic_set("d:cleanup.policy=delete")


@pytest.fixture(params=VERSIONS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The log directory of a broker that stopped cleanly."""
    copy_base(request.param, "alone", tmp_path / "r")
    return tmp_path / "r" / "a"


def bases(root: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in (root / NAME).glob(f"*{LOG}"))


def remove(root: Path, base: int, *, snapshot: bool = False) -> None:
    for path in (root / NAME).glob(f"{base:020d}.*"):
        if snapshot or path.suffix != SNAPSHOT:
            path.unlink()


def forget_end(root: Path) -> None:
    """Remove the partition from the checkpoints that tell its end."""
    for name in ("recovery-point", "replication"):
        checkpoint = root / f"{name}-offset-checkpoint"
        lines = [line for line in checkpoint.read_text().splitlines()[2:] if line[:4] != "d 0 "]
        checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def lost_in(root: Path, *, has_no_gaps: bool) -> tuple[LostSegment, ...]:
    storage, directory = LocalStorage(), f"{root}/{NAME}"
    entries = storage.list_dir(directory)
    return lost_segments(storage, directory, entries, has_no_gaps=has_no_gaps)


def of(root: Path) -> tuple[BrokerStart, LogStart]:
    dirs = survey_log_dirs(Places(), [str(root)])
    settings, _ = with_metadata(Settings(topic_sets=(DELETES,)), Places(), dirs)
    start = start_of(root, settings=settings)
    return start, log_of(start, NAME)


def test_snapshot_in_the_middle_without_its_segment_shows_a_loss(root: Path) -> None:
    lost, following = bases(root)[1:3]
    assert (root / NAME / segment_file(lost, SNAPSHOT)).exists()
    remove(root, lost)
    start, log = of(root)
    assert "the .log file of 1 segment is missing" in log.already_lost
    assert f"offsets {lost} to {following - 1} are lost" in log.already_lost
    assert not start.is_safe


def test_recovery_stops_there(root: Path) -> None:
    lost = bases(root)[1]
    remove(root, lost)
    [partition] = [
        one
        for one in recover(str(root), settings=Settings(topic_sets=(DELETES,))).partitions
        if f"{one.topic}-{one.partition}" == NAME
    ]
    assert "the .log file of 1 segment is missing" in (partition.error or "")
    assert (root / NAME / segment_file(lost, SNAPSHOT)).exists()


def test_survey_stops_there_only_if_the_log_has_no_gaps(root: Path) -> None:
    """`plan`, `clean`, `apply`, `erase` and `prepare` begin with it."""
    remove(root, bases(root)[1])
    place = PartitionPlace(str(root), TopicPartition("d", 0), has_no_gaps=True)
    with pytest.raises(LostSegmentError, match="found only snapshot"):
        list_partition(place)
    assert _list_here(place) is None
    assert list_partition(replace(place, has_no_gaps=False)).listing.segments


def test_segment_that_is_not_whole_or_being_removed_shows_nothing(root: Path) -> None:
    first, lost = bases(root)[:2]
    remove(root, lost)
    log = root / NAME / segment_file(first, LOG)
    whole = log.read_bytes()
    log.write_bytes(whole[:-9])
    assert not lost_in(root, has_no_gaps=True)
    log.write_bytes(whole)
    assert [one.base_offset for one in lost_in(root, has_no_gaps=True)] == [lost]
    (root / NAME / segment_file(lost, LOG + DELETED)).touch()
    assert not lost_in(root, has_no_gaps=True)


def test_all_segments_in_a_gap_are_listed(root: Path) -> None:
    one, two, following = bases(root)[1:4]
    for base in (one, two):
        remove(root, base)
    found = [(lost.base_offset, lost.end_offset) for lost in lost_in(root, has_no_gaps=True)]
    assert found == [(one, two), (two, following)]


def test_snapshot_above_the_end_shows_a_lost_active_segment(root: Path) -> None:
    remove(root, bases(root)[-1])
    forget_end(root)
    start, log = of(root)
    assert "below its newest producer snapshot" in log.already_lost
    assert not start.is_safe


def test_snapshots_below_the_log_and_within_a_segment_show_nothing(root: Path) -> None:
    """As after retention, and after a truncation or an earlier clean stop."""
    first, second = bases(root)[:2]
    remove(root, first)
    snapshots = sorted((root / NAME).glob(f"*{SNAPSHOT}"))
    inside = root / NAME / segment_file(second + 1, SNAPSHOT)
    inside.write_bytes(snapshots[0].read_bytes())
    (root / NAME / segment_file(first + 1, SNAPSHOT)).write_bytes(snapshots[0].read_bytes())
    _, log = of(root)
    assert log.already_lost == ""


def test_snapshot_of_a_segment_that_a_cleaner_merged_shows_nothing(root: Path) -> None:
    lost = bases(root)[1]
    remove(root, lost)
    (root / "cleaner-offset-checkpoint").write_text(f"0\n1\nd 0 {lost}\n")
    _, log = of(root)
    assert log.already_lost == ""


def test_replica_that_is_being_moved_gets_its_end_from_the_current_one(root: Path) -> None:
    future = root / f"{NAME}.0123456789abcdef0123456789abcdef-future"
    shutil.copytree(root / NAME, future)
    for path in future.glob(f"{bases(root)[-1]:020d}.*"):
        path.unlink()
    forget_end(root)
    start, _ = of(root)
    assert log_of(start, future.name).already_lost == ""
