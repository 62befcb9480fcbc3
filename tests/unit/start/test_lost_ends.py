"""Logs of a broker that did not stop cleanly, and that end below their checkpoints: a machine that
loses power leaves such logs. A broker that is killed does not.

Real brokers judge the same states in `tests/kafka/starts`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.start.quorums import make_nodes, replicate, starts_of
from tests.unit.start.test_broker import NOW, log_of, start_of
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.names import CLEAN_SHUTDOWN, HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import RecoveredDir, TruncateRequest
from winnow.start.values import BrokerStart, Fate
from winnow.start.words import start_lines, starts_to_json, verdict
from winnow.storage.places import Places

CHECKPOINTS = (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT)
UUID = "ab" * 16


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two log directories of a broker that was killed."""
    copy_base("4.3.1", "killed", tmp_path / "r")
    return tmp_path / "r"


def both(root: Path) -> tuple[Path, Path]:
    return root / "a", root / "b"


def cut(directory: Path, *, at: int = 115) -> None:
    """Cut the log to the first batch of the segment `at`."""
    for path in directory.iterdir():
        if path.name[:20].isdigit() and int(path.name[:20]) > at:
            path.unlink()
    log = directory / f"{at:020d}.log"
    os.truncate(log, 12 + int.from_bytes(log.read_bytes()[8:12]))
    for index in directory.glob(f"{at:020d}.*index"):
        index.write_bytes(bytes(index.stat().st_size))


def empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()


def set_entry(root: Path, checkpoint: str, entry: str) -> None:
    """`entry`: as in `d 0 150`."""
    path, key = root / "a" / checkpoint, entry.rpartition(" ")[0]
    version, _, *lines = path.read_text().splitlines()
    lines = [line for line in lines if not line.startswith(f"{key} ")] + [entry]
    path.write_text("\n".join([version, str(len(lines)), *lines, ""]))


def recovered(
    root: Path, *, lose_records: bool = False
) -> tuple[tuple[RecoveredDir, ...], BrokerStart]:
    dirs = survey_log_dirs(Places(), [str(path) for path in both(root)])
    request = TruncateRequest(
        truncate=True, settings=Settings(), now=NOW, lose_records=lose_records
    )
    done, [start] = recover_dirs(Places(), dirs, request, run_id="r")
    return done, start


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_killed_broker_has_lost_nothing(root: Path) -> None:
    assert start_of(*both(root)).is_safe
    done, start = recovered(root)
    assert [one.marked for one in done] == [True, True]
    assert start.is_safe


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_log_below_its_checkpoints_has_lost_records(root: Path, checkpoint: str) -> None:
    cut(root / "a" / "d-0")
    [other] = {*CHECKPOINTS} - {checkpoint}
    set_entry(root, other, "d 0 80")
    start = start_of(*both(root))
    assert (start.is_safe, start.is_harmful, start.fate) == (False, True, Fate.RECOVERS)
    assert verdict(start).endswith(", serves logs that have lost records")
    log = log_of(start, "d-0")
    what = "high watermark" if checkpoint == HIGH_WATERMARK_CHECKPOINT else "recovery point"
    end = log.log_end_offset
    assert log.already_lost == (
        f"it ends at offset {end}, below its {what} 150: offsets {end} to 149 are lost"
    )
    assert f"d-0: {log.already_lost}" in start_lines(start)
    [told] = [one for one in starts_to_json([start])[0]["log_dirs"][0]["logs"] if one["reason"]]
    assert told["reason"].startswith(log.already_lost)


@pytest.mark.parametrize("lose", [cut, empty])
def test_evidence_of_a_loss_is_kept_without_lose_records(
    root: Path, lose: Callable[[Path], None]
) -> None:
    lose(root / "a" / "d-0")
    before = files_of(root / "a" / "d-0")
    done, start = recovered(root)
    [failed] = [log for log in done[0].logs if log.error is not None]
    assert failed.error is not None
    assert failed.name == "d-0"
    assert "below its high watermark 150" in failed.error
    assert "is not done without --lose-records" in failed.error
    assert not any(one.marked for one in done)
    assert not [*root.glob(f"?/{CLEAN_SHUTDOWN}")]
    assert not start.is_safe
    assert files_of(root / "a" / "d-0") == before
    for name in CHECKPOINTS:
        assert "d 0 150" in (root / "a" / name).read_text().splitlines()
    done, start = recovered(root, lose_records=True)
    assert all(one.marked for one in done)
    assert start.is_safe
    assert "d 0 150" not in (root / "a" / HIGH_WATERMARK_CHECKPOINT).read_text().splitlines()


def test_topic_that_was_made_anew_has_the_high_watermark_of_the_earlier_one(root: Path) -> None:
    """A broker that deletes a topic writes the high watermarks without it some seconds later."""
    directory = root / "a" / "d-0"
    cut(directory)
    set_entry(root, RECOVERY_POINT_CHECKPOINT, "d 0 0")
    checkpoint = root / "a" / HIGH_WATERMARK_CHECKPOINT
    first = min(directory.glob("*.log")).read_bytes()
    written = int.from_bytes(first[35:43]) * 10**6  # the largest time of the first batch
    made = written + 10**9
    os.utime(checkpoint, ns=(written, written))
    os.utime(directory / "partition.metadata", ns=(made, made))
    assert start_of(*both(root)).is_safe
    os.utime(directory / "partition.metadata", ns=(written, written))
    assert not start_of(*both(root)).is_safe
    # A copy that was made later, such as of a topic that is some minutes old.
    for seconds in (600, 24 * 3600):
        later = written + seconds * 10**9
        os.utime(checkpoint, ns=(later, later))
        os.utime(directory / "partition.metadata", ns=(later + 1, later + 1))
        assert not start_of(*both(root)).is_safe


def test_replica_that_is_being_moved_gets_what_it_lacks(root: Path) -> None:
    shutil.copytree(root / "a" / "d-0", root / "b" / f"d-0.{UUID}-future")
    cut(root / "b" / f"d-0.{UUID}-future")
    checkpoint = root / "b" / HIGH_WATERMARK_CHECKPOINT
    version, count, *lines = checkpoint.read_text().splitlines()
    checkpoint.write_text("\n".join([version, str(int(count) + 1), *lines, "d 0 150", ""]))
    start = start_of(*both(root))
    assert log_of(start, f"d-0.{UUID}-future").already_lost == ""
    assert start.is_safe


@pytest.mark.parametrize("kind", ["delete", "stray"])
@pytest.mark.parametrize("lose", [cut, empty, "middle"])
def test_nobody_misses_records_of_a_directory_that_is_not_served(
    root: Path, kind: str, lose: Callable[[Path], None] | str
) -> None:
    """A crash in the middle of a deletion leaves such a directory."""
    directory = root / "a" / f"d-0.{UUID}-{kind}"
    shutil.copytree(root / "a" / "d-0", directory)
    if isinstance(lose, str):
        sorted(directory.glob("*.log"))[1].unlink()
    else:
        lose(directory)
    start = start_of(*both(root))
    assert log_of(start, directory.name).already_lost == ""
    assert start.is_safe
    done, start = recovered(root)
    assert [log.error for one in done for log in one.logs if log.error] == []
    assert [one.marked for one in done] == [True, True]
    assert start.is_safe


def test_no_marker_is_written_if_anything_failed(root: Path) -> None:
    (root / "b" / "d-1" / "leader-epoch-checkpoint").write_text("0\n1\n0\n")
    done, start = recovered(root)
    assert [one.error or [log.error for log in one.logs if log.error] for one in done] != [[], []]
    assert [one.marked for one in done] == [False, False]
    assert not [*root.glob(f"?/{CLEAN_SHUTDOWN}")]
    assert start.recovered_bytes


def test_other_members_of_the_isr_have_what_the_log_has_lost(tmp_path: Path) -> None:
    """On real clusters of 3.9.2 and 4.3.1, they then cut their logs to the end of the leader's."""
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", (1, 2, 3))
    cut(nodes[0] / "d-0", at=max(int(log.stem) for log in (nodes[0] / "d-0").glob("*.log")))
    dirs = survey_log_dirs(Places(), [str(path) for path in nodes])
    settings, _ = with_metadata(Settings(), Places(), dirs)
    [start, *others] = starts_of(nodes, settings)
    assert not start.is_safe
    assert all(one.is_safe for one in others)
    assert log_of(start, "d-0").advice.startswith(
        "Other nodes have replicas that were in sync, but followers of such a leader cut their "
        "logs, too. Start this broker only while another member of the ISR leads: "
    )
    [told, fact] = start_lines(start)
    assert told.startswith("d-0 has lost records. Other nodes")
    assert fact.startswith("d-0: it ends at offset ")
