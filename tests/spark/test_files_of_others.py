"""Links out of the log directory, hard links to the same files, and files that another process
changes during a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.runs import (
    AtStage,
    add_partition,
    by_name,
    changes,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    stray_files,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETS = ("*:cleanup.policy=compact", "*:internal.segment.bytes=65536")
SEGMENT = f"{648:020d}.log"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = new_log_dir(tmp_path / "d")
    add_partition(path, "linked-0", "c-4p-1")
    add_partition(path, "fine-0", "c-tomb-0")
    return path


def move_away(path: Path) -> Path:
    """Out of the log directory, with a link left behind."""
    elsewhere = Path(str(path).replace("/d/", "/elsewhere/"))
    elsewhere.parent.mkdir(parents=True)
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    return elsewhere


def test_linked_partition_is_skipped_and_reason_reported(
    spark: SparkSession, log_dir: Path
) -> None:
    elsewhere = move_away(log_dir / "linked-0")
    before = files_of(elsewhere)
    for verb in (plan, clean):
        result = run(verb, spark, log_dir, sets=SETS)
        linked, fine = (by_name(result)[name] for name in ("linked-0", "fine-0"))
        assert (linked.actions, linked.left_alone, linked.error) == (("none",), True, None)
        assert "symbolic link" in linked.reason
        assert "lock of this log directory does not protect" in linked.reason
        assert fine.actions == ("compacted",)
        assert result.exit_code == 3
    assert changes(before, files_of(elsewhere)) == []
    assert (log_dir / "linked-0").is_symlink()


@pytest.mark.parametrize("suffix", [".log", ".index", ".snapshot"])
def test_linked_segment_leaves_its_partition_untouched(
    spark: SparkSession, log_dir: Path, suffix: str
) -> None:
    directory = log_dir / "linked-0"
    elsewhere = move_away(
        next(path for path in sorted(directory.iterdir()) if path.name.endswith(suffix))
    )
    before = files_of(directory)
    linked = by_name(run(clean, spark, log_dir, sets=SETS))["linked-0"]
    assert "found a symbolic link" in (linked.error or "")
    assert changes(before, files_of(directory)) == []
    assert elsewhere.exists()


def test_link_among_leftovers_is_removed_but_not_its_target(
    spark: SparkSession, log_dir: Path
) -> None:
    elsewhere = log_dir.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    (log_dir / "linked-0" / ".winnow-one").symlink_to(elsewhere)
    (log_dir / "linked-0" / ".winnow-two").mkdir()
    (log_dir / "linked-0" / ".winnow-two" / "deep").symlink_to(elsewhere)
    assert by_name(run(clean, spark, log_dir, sets=SETS))["linked-0"].actions == ("compacted",)
    assert stray_files(log_dir) == []
    assert (elsewhere / "precious").read_text() == "x"


def test_hard_links_keep_their_bytes(spark: SparkSession, log_dir: Path) -> None:
    """`cp -al` makes them for a backup. Winnow never writes into an existing file."""
    backup = log_dir.parent / "backup"
    for path in sorted(log_dir.rglob("*")):
        copy = backup / path.relative_to(log_dir)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            copy.hardlink_to(path)
    before = files_of(backup)
    assert by_name(run(clean, spark, log_dir, sets=SETS))["linked-0"].actions == ("compacted",)
    assert changes(before, files_of(backup)) == []


def _rewrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"?")


def _replace(path: Path) -> None:
    path.with_name("other").write_bytes(path.read_bytes())
    path.with_name("other").rename(path)


@pytest.mark.parametrize("change", [_rewrite, _replace])
def test_change_with_same_size_and_time_is_detected(
    spark: SparkSession, log_dir: Path, change: Callable[[Path], None]
) -> None:
    log = log_dir / "linked-0" / SEGMENT
    times = log.stat()

    def act() -> None:
        change(log)
        os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))

    result = run(clean, spark, log_dir, sets=SETS, progress=AtStage("compacting", act))
    changed = by_name(result)["linked-0"]
    assert changed.actions == ("none",)
    assert str(log) in (changed.error or "")
    assert log.stat().st_size == times.st_size
    assert stray_files(log_dir) == []
    assert by_name(result)["fine-0"].actions == ("compacted",)
