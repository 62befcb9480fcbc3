"""`clean --output` only reads the source and writes what an in-place clean of a copy would
leave.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.spark.runs import AtStage, File, by_name, changes, clean, files_of, plan, run
from winnow.cleaning.result import RunResult
from winnow.errors import (
    CorruptLogError,
    LogDirInUseError,
    NoSpaceError,
    StoppedError,
    UsageError,
    WinnowError,
)
from winnow.logdir.lock import lock_log_dir
from winnow.runtime.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ("c-tomb-0", "d-size-0", "t-closed-0", "__cluster_metadata-0")
MORE = (*SOME, "__consumer_offsets-0", "c-none-0", "c-zstd-0", "cd-mixed-0", "d-time-0", "t-open-0")
UNFINISHED = ".winnow-unfinished"


@dataclass(frozen=True)
class Runs:
    source: Path
    before: Mapping[str, File | None]
    in_place: RunResult
    expected: Mapping[str, File | None]
    output: Path
    result: RunResult


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Of a source that nobody may write to, in batches, and of a copy of it in place."""
    home = tmp_path_factory.mktemp("output")
    source = copy_log_dir("clean", home / "source", only=MORE)
    (source / ".lock").touch()
    copy_tree(source, home / "copy")
    in_place = run(clean, spark, home / "copy")
    before = files_of(source)
    result = run(clean, spark, source, output=[str(home / "output")], work_space=2 * 2**20)
    return Runs(source, before, in_place, files_of(home / "copy"), home / "output", result)


def test_source_is_unchanged(runs: Runs) -> None:
    assert changes(runs.before, files_of(runs.source)) == []
    assert (runs.source / ".lock").stat().st_size == 0


def test_every_file_equals_that_of_an_in_place_clean(runs: Runs) -> None:
    found = files_of(runs.output)
    assert len(found) > 100
    different = {
        name
        for name in changes(runs.expected, found)
        if not _same_but_time(runs.expected.get(name), found.get(name))
    }
    # New entries of checkpoints come in the order of the work.
    assert different <= {"cleaner-offset-checkpoint", "log-start-offset-checkpoint"}
    for name in different:
        assert sorted((runs.output / name).read_text().splitlines()) == sorted(
            (runs.source.parent / "copy" / name).read_text().splitlines()
        )


def _same_but_time(one: File | None, other: File | None) -> bool:
    """Files that a run makes anew and that no rule asks the age of: checkpoints, an empty
    segment.
    """
    return (
        one is not None
        and other is not None
        and (one.digest, one.mode, one.owner)
        == (
            other.digest,
            other.mode,
            other.owner,
        )
    )


def test_log_files_have_the_times_that_retention_uses(runs: Runs) -> None:
    found = files_of(runs.output)
    for name, file in runs.expected.items():
        if name.endswith(".log") and (runs.output / name).stat().st_size:
            assert found[name] == file, name


def test_result_names_the_source_directory(runs: Runs) -> None:
    ours, theirs = by_name(runs.result), by_name(runs.in_place)
    assert ours.keys() == theirs.keys()
    for name, partition in ours.items():
        assert partition.log_dir == str(runs.source)
        assert (partition.actions, partition.bytes_after) == (
            theirs[name].actions,
            theirs[name].bytes_after,
        )
    assert not [note for note in runs.result.notes if "winnow-work" in note]
    assert runs.result.exit_code == 0


def test_unfinished_output_is_refused_and_can_be_restarted(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    output = tmp_path / "output"
    stop = Stop()
    written: list[str] = []

    def stop_at_the_second() -> None:
        written.append("a partition")
        if len(written) == 2:
            stop.request("by a test")

    at_writing = AtStage("writing to", stop_at_the_second)
    with pytest.raises(StoppedError, match="--begin-again"):
        run(clean, spark, source, output=[str(output)], progress=at_writing, stop=stop)
    assert json.loads((output / UNFINISHED).read_text())["source"] == str(source)
    assert not (output / "meta.properties").exists()
    assert [*(output / "c-tomb-0").glob("*.log")]
    with pytest.raises(UsageError, match="has not finished"):
        run(plan, spark, output)
    with pytest.raises(UsageError, match="--begin-again"):
        run(clean, spark, source, output=[str(output)])

    run(clean, spark, source, output=[str(output)], begin_again=True)

    run(clean, spark, source, output=[str(tmp_path / "other")])
    assert files_of(output).keys() == files_of(tmp_path / "other").keys()
    assert not (output / UNFINISHED).exists()
    with pytest.raises(UsageError, match="the destination is not empty"):
        run(clean, spark, source, output=[str(output)], begin_again=True)


def test_source_that_changes_during_the_run_gives_no_output(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    active = max((source / "d-size-0").glob("*.log"))

    def append() -> None:
        with active.open("ab") as file:
            file.write(b"x")

    with pytest.raises(CorruptLogError, match=r"changed while it was being read.*d-size-0"):
        run(
            clean,
            spark,
            source,
            output=[str(tmp_path / "output")],
            progress=AtStage("writing to", append),
        )
    assert not (tmp_path / "output" / "meta.properties").exists()


def test_second_writer_is_detected(spark: SparkSession, tmp_path: Path) -> None:
    """On a disk the lock keeps it out. Elsewhere, the run overwrites nothing and does not finish
    with foreign files.
    """
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    output = tmp_path / "output"
    output.mkdir()
    with lock_log_dir(str(output)), pytest.raises(LogDirInUseError):
        run(clean, spark, source, output=[str(output)])

    def intrude() -> None:
        (output / "other-0").mkdir(exist_ok=True)
        (output / "other-0" / "00000000000000000000.log").touch()

    with pytest.raises(WinnowError, match=r"another process is writing.*other-0"):
        run(clean, spark, source, output=[str(output)], progress=AtStage("writing to", intrude))
    assert not (output / "meta.properties").exists()


def test_running_broker_is_named_and_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    with lock_log_dir(str(source)), pytest.raises(LogDirInUseError, match=f"process {os.getpid()}"):
        run(clean, spark, source, output=[str(tmp_path / "output")])
    met: list[str] = []

    def start() -> None:
        with pytest.raises(LogDirInUseError):
            lock_log_dir(str(source))
        met.append("refused")

    run(
        clean, spark, source, output=[str(tmp_path / "output")], progress=AtStage("fetching", start)
    )
    assert met


def test_each_log_directory_has_its_own_output(spark: SparkSession, tmp_path: Path) -> None:
    """The metadata log is in one of them and covers the topics of both."""
    one = copy_log_dir("clean", tmp_path / "one", only=("c-tomb-0", "__cluster_metadata-0"))
    two = copy_log_dir("clean", tmp_path / "two", only=("d-size-0",))
    with pytest.raises(UsageError, match="2 times"):
        run(clean, spark, one, two, output=[str(tmp_path / "a")])
    result = run(clean, spark, one, two, output=[str(tmp_path / "a"), str(tmp_path / "b")])
    assert {p.actions for p in result.partitions} == {("compacted",), ("retained",)}
    assert (tmp_path / "a" / "c-tomb-0").is_dir()
    assert (tmp_path / "b" / "d-size-0").is_dir()
    assert not (tmp_path / "b" / "c-tomb-0").exists()


def test_unusable_output_places_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for output, words in (
        (source, "inside a log directory or another"),
        (source / "t-1", "inside a log directory or another"),
        (tmp_path, "inside a log directory or another"),
        (tmp_path / "full", "the destination is not empty"),
    ):
        with pytest.raises(UsageError, match=words):
            run(clean, spark, source, output=[str(output)])
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["file"]
    with pytest.raises(NoSpaceError, match="--work-space"):
        run(clean, spark, source, output=[str(tmp_path / "output")], work_space=1000)
    (source / "t-closed-0" / "link").symlink_to(source / "meta.properties")
    with pytest.raises(UsageError, match="symbolic link"):
        run(clean, spark, source, output=[str(tmp_path / "another")])


def test_plan_with_output_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    before = files_of(source)
    result = run(plan, spark, source, output=[str(tmp_path / "output")])
    assert [p.log_dir for p in result.partitions] == [str(source)] * 3
    assert changes(before, files_of(source)) == []
    assert not (source / ".lock").exists()
    assert not (tmp_path / "output").exists()
