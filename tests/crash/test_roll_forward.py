"""The recovery that finishes an interrupted round may itself be stopped anywhere. It never changes
the log when it cannot be sure what the round did.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.logs import leftovers
from tests.crash.replay import (
    CrashPoint,
    RecordingStorage,
    crash_points,
)
from tests.crash.runs import CrashRun, checkpoint_entry, must_hold
from tests.fixtures.data import copy_tree
from winnow.errors import CorruptLogError
from winnow.logdir.commit.journal import JOURNAL
from winnow.logdir.commit.roll_forward import PutRight, put_right
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    KEEPING_SUFFIX,
    KEPT_PREFIX,
    LOCK,
    SNAPSHOT,
    STAGING_PREFIX,
)
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()
T = TopicPartition("t", 0)


def roll(root: Path, storage: LocalStorage = STORAGE, *, finish: bool = True) -> PutRight:
    return put_right(storage, str(root), T, finish=finish)


def content(root: Path) -> dict[str, bytes]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != LOCK]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def is_given_up(done: PutRight) -> bool:
    return (done.finished, done.goes_on) == (None, None)


def has_journal(root: Path) -> bool:
    return bool(list((root / str(T)).glob(f"{STAGING_PREFIX}*/{JOURNAL}")))


def first_with_journal(run: CrashRun, scratch: Path) -> CrashPoint:
    """Crash right after the journal was written. No swap has begun."""
    return next(
        point for point in run.crashes(scratch, out_of_order=False) if has_journal(point.root)
    )


@pytest.mark.parametrize(
    ("name", "out_of_order"),
    [("compact", False), ("compact", True), ("kept, compact", False), ("kept, compact", True)],
)
def test_round_with_journal_is_finished_and_one_without_is_discarded(
    name: str, *, out_of_order: bool, crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    run = crash_run(name)
    before, after = content(run.before), content(run.after)
    finished = untouched = 0
    for point in run.crashes(tmp_path, out_of_order=out_of_order, every=3 if out_of_order else 1):
        if point.in_order is out_of_order:
            continue
        known = has_journal(point.root)
        done = roll(point.root)
        assert (done.finished is not None) is known, point.label
        assert done.goes_on is None, point.label
        assert leftovers(STORAGE, f"{point.root}/{T}") == (), point.label
        if known:
            assert _no_strays(content(point.root)) == _no_strays(after), point.label
        else:
            assert content(point.root) in (before, after), point.label
        finished += known
        untouched += not known
    assert finished > 60
    assert out_of_order or untouched > 20


def test_crash_of_roll_forward_changes_no_outcome(
    crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    run = crash_run("compact")
    after = content(run.after)

    def act(storage: RecordingStorage, root: Path) -> None:
        roll(root, storage)

    points = 0
    for number, point in enumerate(run.crashes(tmp_path / "crash", out_of_order=False, every=11)):
        if not has_journal(point.root):
            continue
        unordered = bool(number % 2)
        for second in crash_points(
            point.root, tmp_path / "again", act, out_of_order=unordered, every=1 + 6 * unordered
        ):
            roll(second.root)
            label = f"{point.label}; {second.label}"
            assert leftovers(STORAGE, f"{second.root}/{T}") == (), label
            assert _no_strays(content(second.root)) == _no_strays(after), label
            points += 1
    assert points > 200


def touch_source(root: Path) -> None:
    log = sorted((root / str(T)).glob("*.log"))[-2]
    os.utime(log, ns=(1, 1_700_000_000_000_000_000))


def truncate_staged(root: Path) -> None:
    staged = max((root / str(T)).glob(f"{STAGING_PREFIX}*/*.timeindex.*"))
    with staged.open("r+b") as file:
        file.truncate(max(staged.stat().st_size - 1, 0))


def remove_staged(root: Path) -> None:
    max((root / str(T)).glob(f"{STAGING_PREFIX}*/*.log.*")).unlink()


def move_checkpoint(root: Path) -> None:
    (root / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 5\n")


def cut_journal(root: Path) -> None:
    for journal in (root / str(T)).glob(f"{STAGING_PREFIX}*/{JOURNAL}"):
        journal.write_bytes(journal.read_bytes()[:-10])


def add_segment(root: Path) -> None:
    """Add a segment that no broker would make: a broker adds segments only after the active one."""
    log = sorted((root / str(T)).glob("*.log"))[-2]
    copy = log.with_name(f"{int(log.stem) + 1:020d}.log")
    shutil.copy2(log, copy)
    copy.write_bytes(b"")
    for suffix in (".index", ".timeindex"):
        copy.with_suffix(suffix).write_bytes(b"")


CHANGES = {
    change.__name__: change
    for change in (
        touch_source,
        truncate_staged,
        remove_staged,
        move_checkpoint,
        cut_journal,
        add_segment,
    )
}


@pytest.mark.parametrize("name", CHANGES)
def test_round_is_given_up_when_the_log_has_changed_since(
    name: str, crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    run = crash_run("compact")
    holds = must_hold(run, tmp_path)
    given_up = 0
    for point in run.crashes(tmp_path / "crash", out_of_order=False, every=15):
        if not _last_group_is_staged(point):
            continue
        CHANGES[name](point.root)
        checkpoint = checkpoint_entry(point.root, CLEANER_CHECKPOINT, str(T))
        done = roll(point.root)
        assert done.finished is None, point.label
        assert leftovers(STORAGE, f"{point.root}/{T}") == (), point.label
        assert checkpoint_entry(point.root, CLEANER_CHECKPOINT, str(T)) == checkpoint, point.label
        if name not in {"move_checkpoint", "add_segment"}:  # they make it another log
            holds.check(point.root, point.label)
        given_up += 1
    assert given_up > 5


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_damaged_staged_file_is_reported_and_nothing_removed(
    suffix: str, crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    """Random bytes of the right size and age, wherever the file is: staged, renamed to `.swap`, or
    in its place.
    """
    run = crash_run("compact")
    places = set()
    for point in run.crashes(tmp_path / "crash", out_of_order=False):
        path = _output_of_last_group(point, suffix)
        if path is None:
            continue
        status = path.stat()
        path.write_bytes(random.Random(0).randbytes(status.st_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        sources = _segments(point.root)
        with pytest.raises(CorruptLogError, match="damaged") as caught:
            roll(point.root)
        assert caught.value.hint, point.label
        assert path.exists(), point.label
        lost = sources - _segments(point.root)
        # The groups before it are finished; none of its own sources is removed.
        assert not {name for name in lost if name >= f"{_last_group(point)[0]:020d}"}, point.label
        places.add(path.suffix if path.suffix in {".swap", suffix} else "staged")
    assert places == {"staged", ".swap"}


def test_round_without_checksums_is_given_up(
    crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    """An earlier version wrote its journal."""
    run = crash_run("compact")
    holds = must_hold(run, tmp_path)
    given_up = 0
    for point in run.crashes(tmp_path / "crash", out_of_order=False, every=5):
        if not has_journal(point.root):
            continue
        for journal in (point.root / str(T)).glob(f"{STAGING_PREFIX}*/{JOURNAL}"):
            value = json.loads(journal.read_text())
            for group in value["groups"]:
                for file in group["output"]["files"].values():
                    del file["crc32c"]
            journal.write_text(json.dumps(value))
        assert is_given_up(roll(point.root)), point.label
        assert leftovers(STORAGE, f"{point.root}/{T}") == (), point.label
        holds.check(point.root, point.label)
        given_up += 1
    assert given_up > 10


def test_run_that_does_not_compact_gives_the_round_up(
    crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    run = crash_run("compact")
    first = first_with_journal(run, tmp_path)
    assert is_given_up(roll(first.root, finish=False))
    assert content(first.root) == content(run.before)


def test_round_beyond_the_trusted_end_is_given_up(
    crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    run = crash_run("compact")
    end = checkpoint_entry(run.after, CLEANER_CHECKPOINT, str(T))
    assert end is not None
    first = first_with_journal(run, tmp_path / "a")
    copy_tree(first.root, tmp_path / "copy")
    assert is_given_up(put_right(STORAGE, str(first.root), T, finish=True, trusted_end=end - 1))
    assert put_right(STORAGE, str(tmp_path / "copy"), T, finish=True, trusted_end=end).finished


def test_round_whose_kept_run_is_missing_is_given_up(
    crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    """An earlier Winnow moved it aside before the first step was kept, and failed then."""
    run = crash_run("kept, compact")
    first = first_with_journal(run, tmp_path)
    directory = first.root / str(T)
    (kept,) = directory.glob(f"{KEPT_PREFIX}*")
    (keeping,) = directory.glob(f"*{KEEPING_SUFFIX}")
    kept.rename(keeping / "aside")
    assert is_given_up(roll(first.root))
    assert content(first.root) == content(run.before)


@pytest.mark.parametrize(
    "name", ["../../../../etc/passwd", "x/00000000000000000000.log.1", "..", ""]
)
def test_name_in_journal_cannot_leave_its_directory(
    name: str, crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    run = crash_run("compact")
    first = first_with_journal(run, tmp_path)
    (journal,) = (first.root / str(T)).glob(f"{STAGING_PREFIX}*/{JOURNAL}")
    value = json.loads(journal.read_text())
    value["groups"][0]["output"]["files"][".log"]["name"] = name
    journal.write_text(json.dumps(value))
    assert is_given_up(roll(first.root)), "as if there had been no journal"
    assert content(first.root) == content(run.before)


def _last_group_is_staged(point: CrashPoint) -> bool:
    directory = point.root / str(T)
    for journal in directory.glob(f"{STAGING_PREFIX}*/{JOURNAL}"):
        last = json.loads(journal.read_text())["groups"][-1]["output"]
        return all((journal.parent / file["name"]).exists() for file in last["files"].values())
    return False


def _last_group(point: CrashPoint) -> tuple[int, dict[str, str]]:
    """Its base offset, and the names of its staged files by suffix; -1 without a journal."""
    for journal in (point.root / str(T)).glob(f"{STAGING_PREFIX}*/{JOURNAL}"):
        last = json.loads(journal.read_text())["groups"][-1]
        files = {suffix: file["name"] for suffix, file in last["output"]["files"].items()}
        return last["sources"][0]["base_offset"], files
    return -1, {}


def _output_of_last_group(point: CrashPoint, suffix: str) -> Path | None:
    """Where the file is before any source of its group has its name taken; None if it is empty, or
    no longer so.
    """
    base, files = _last_group(point)
    directory = point.root / str(T)
    swaps = list(directory.glob(f"{base:020d}.*.swap"))
    cleaned = list(directory.glob(f"{base:020d}.*.cleaned"))
    candidates = [*directory.glob(f"{STAGING_PREFIX}*/{files.get(suffix)}")]
    candidates += [
        path for path in swaps if not cleaned and path.name == f"{base:020d}{suffix}.swap"
    ]
    found = [path for path in candidates if path.stat().st_size]
    return found[0] if found else None


def _segments(root: Path) -> set[str]:
    """Segments that are there, under their names or marked as deleted."""
    logs = [path for path in (root / str(T)).glob("*.log*") if path.suffix in {".log", ".deleted"}]
    return {path.name.removesuffix(".deleted") for path in logs}


def _no_strays(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith((SNAPSHOT, ".tmp"))}
