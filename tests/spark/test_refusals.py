"""What a run skips, and what it refuses altogether."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import (
    NOW,
    AtStage,
    File,
    add_partition,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    set_checkpoint,
)
from winnow.api import doctor
from winnow.cleaning.result import RunResult
from winnow.errors import LogDirInUseError, UsageError
from winnow.logdir.metadata import METADATA_DIR
from winnow.policy.sources import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Run:
    log_dir: Path
    before: dict[str, File | None]
    result: RunResult
    after: dict[str, File | None]

    def changed(self) -> set[str]:
        """Partitions and files of the log directory itself."""
        return {name.split("/")[0] for name in changes(self.before, self.after)}


def observed(spark: SparkSession, log_dir: Path, **more: Any) -> Run:
    before = files_of(log_dir)
    result = run(clean, spark, log_dir, **more)
    return Run(log_dir, before, result, files_of(log_dir))


def small(path: Path, *names: str) -> Path:
    """A log directory with some recorded partitions under their own names."""
    new_log_dir(path)
    for name in names or ("c-tomb-0", "d-time-0"):
        add_partition(path, name, name)
    return path


def test_refuse_touches_nothing_without_the_clean_shutdown_marker(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = small(tmp_path / "d")
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "c-tomb-0" / "00000000000000000121.log.deleted").write_bytes(b"x")
    done = observed(spark, log_dir, unclean_shutdown="refuse")
    assert done.changed() == set()
    assert done.result.exit_code == 3
    assert len(done.result.partitions) == 2
    for p in done.result.partitions:
        assert p.actions == ("none",)
        assert p.left_alone
        assert p.rule == "S8.2"
        assert ".kafka_cleanshutdown" in p.reason
        assert "--unclean-shutdown=refuse" in p.reason


def test_unclean_log_directory_is_read_and_cleaned_by_default(
    spark: SparkSession, tmp_path: Path
) -> None:
    clean_one = small(tmp_path / "clean")
    log_dir = small(tmp_path / "d")
    (log_dir / ".kafka_cleanshutdown").unlink()
    torn = max((log_dir / "c-tomb-0").glob("*.log"))
    torn.write_bytes(torn.read_bytes() + bytes(5000))
    expected, done = by_name(observed(spark, clean_one).result), observed(spark, log_dir)
    assert done.result.exit_code == 0
    results = by_name(done.result)
    assert results["c-tomb-0"].actions == expected["c-tomb-0"].actions == ("compacted",)
    assert "zeros follow" in results["c-tomb-0"].reason
    assert torn.read_bytes()[-5000:] == bytes(5000)
    assert results["d-time-0"].actions == ("retained",)
    assert not (log_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("torn", ["log start", "closed segment", "offset"])
def test_log_that_a_broker_would_not_just_cut_is_refused_and_others_are_cleaned(
    torn: str, spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0", "c-plain-0")
    (log_dir / ".kafka_cleanshutdown").unlink()
    partition = log_dir / "c-tomb-0"
    first, second, *_ = sorted(partition.glob("*.log"))
    words = "batch can't be read"
    if torn == "log start":
        set_checkpoint(log_dir / "log-start-offset-checkpoint", "c-tomb-0", 10**6)
        words = "the log ends before its log start offset"
    elif torn == "closed segment":  # below the recovery point no broker looks
        set_checkpoint(log_dir / "recovery-point-offset-checkpoint", "c-tomb-0", 10**6)
        first.write_bytes(first.read_bytes()[:-7])
    else:
        # No CRC covers a base offset: the batch is valid, and out of order.
        data = bytearray(second.read_bytes())
        data[0:8] = bytes(8)
        second.write_bytes(data)
    done = observed(spark, log_dir)
    results = by_name(done.result)
    assert words in (results["c-tomb-0"].error or ""), results["c-tomb-0"]
    assert results["c-plain-0"].actions == ("compacted",)
    assert done.result.exit_code == 3
    assert {name.partition("/")[0] for name in done.changed()} <= {
        "c-plain-0",
        "cleaner-offset-checkpoint",
    }


def test_unknown_policy_leaves_topic_untouched(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0")
    add_partition(log_dir, "nobody-knows-0", "c-tomb-0")
    done = observed(spark, log_dir)
    unknown = by_name(done.result)["nobody-knows-0"]
    assert (unknown.policy, unknown.actions, unknown.left_alone) == (None, ("none",), True)
    assert unknown.rule == "S9.2"
    assert "--topic-configs" in unknown.reason
    assert done.changed() == {"c-tomb-0", "cleaner-offset-checkpoint"}
    assert done.result.exit_code == 3


def test_partitions_are_reported_in_order_of_log_directories(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, two = small(tmp_path / "one", "c-tomb-0"), small(tmp_path / "two", "c-4p-0")
    add_partition(one, "a-unknown-0", "c-tomb-0")
    add_partition(two, "z-unknown-0", "c-tomb-0")
    add_partition(two, "c-4p-1", "c-4p-1")
    (two / "c-4p-1" / "part-0.log").write_bytes(b"x")
    for verb in (plan, clean):
        result = run(verb, spark, two, one)
        assert list(by_name(result)) == [
            "c-4p-0",
            "c-4p-1",
            "z-unknown-0",
            "a-unknown-0",
            "c-tomb-0",
        ]


def test_only_requested_topics_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0", "c-4p-0", "c-4p-2", "d-time-0")
    done = observed(spark, log_dir, topics=["c-4?", "c-4p"])
    assert sorted(by_name(done.result)) == ["c-4p-0", "c-4p-2"]
    assert done.changed() == {"c-4p-0", "c-4p-2", "cleaner-offset-checkpoint"}
    assert (done.result.status, done.result.exit_code) == ("done", 0)


def test_retention_only_compacts_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0", "d-time-0", "cd-mixed-0")
    done = observed(spark, log_dir, only="retention", sets=["cd-mixed:retention.bytes=300000"])
    assert {name: p.actions for name, p in by_name(done.result).items()} == {
        "c-tomb-0": ("none",),
        "d-time-0": ("retained",),
        "cd-mixed-0": ("retained",),
    }
    assert done.changed() == {"d-time-0", "cd-mixed-0"}
    assert done.result.exit_code == 0


def test_compaction_only_deletes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0", "d-time-0", "cd-mixed-0")
    done = observed(spark, log_dir, only="compaction", sets=["cd-mixed:retention.ms=1000"])
    assert {name: p.actions for name, p in by_name(done.result).items()} == {
        "c-tomb-0": ("compacted",),
        "d-time-0": ("none",),
        "cd-mixed-0": ("compacted",),
    }
    assert done.changed() == {"c-tomb-0", "cd-mixed-0", "cleaner-offset-checkpoint"}


@pytest.fixture(scope="module")
def offsets(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Checkpoints that contradict the logs, one per partition."""
    log_dir = new_log_dir(tmp_path_factory.mktemp("offsets") / "d")
    for name in ("beyond", "below", "idle", "cut", "unknown-hw"):
        add_partition(log_dir, f"{name}-0", "c-tomb-0")
    cleaner, start = log_dir / "cleaner-offset-checkpoint", log_dir / "log-start-offset-checkpoint"
    set_checkpoint(cleaner, "gone-7", 5)
    set_checkpoint(cleaner, "beyond-0", 1001)
    set_checkpoint(cleaner, "below-0", -1)
    set_checkpoint(start, "below-0", 130)
    set_checkpoint(cleaner, "idle-0", 99_999)
    set_checkpoint(start, "cut-0", 1001)
    set_checkpoint(log_dir / "replication-offset-checkpoint", "unknown-hw-0", 0)
    sets = [
        "*:cleanup.policy=compact",
        "*:internal.segment.bytes=4096",
        "idle:min.cleanable.dirty.ratio=1.0",
    ]
    return observed(spark, log_dir, sets=sets)


def test_cleaner_checkpoint_beyond_the_log_is_reset(offsets: Run) -> None:
    p = by_name(offsets.result)["beyond-0"]
    assert (p.actions, p.first_dirty_offset_before, p.first_dirty_offset_after) == (
        ("compacted",),
        0,
        960,
    )
    assert "is reset to 0" in p.reason
    assert checkpoint(offsets.log_dir / "cleaner-offset-checkpoint")["beyond-0"] == 960


def test_cleaner_checkpoint_below_log_start_is_reset_to_it(offsets: Run) -> None:
    p = by_name(offsets.result)["below-0"]
    assert (p.first_dirty_offset_before, p.log_start_offset_before) == (130, 130)
    assert "the cleaner checkpoint -1 lies outside the log" in p.reason
    assert "is reset to 130" in p.reason
    assert checkpoint(offsets.log_dir / "cleaner-offset-checkpoint")["below-0"] == 960


def test_checkpoint_reset_is_written_even_if_nothing_is_cleaned(offsets: Run) -> None:
    p = by_name(offsets.result)["idle-0"]
    assert (p.actions, p.first_dirty_offset_after, p.error) == (("none",), 0, None)
    assert checkpoint(offsets.log_dir / "cleaner-offset-checkpoint")["idle-0"] == 0


def test_log_start_beyond_the_end_is_refused(
    offsets: Run,
) -> None:
    p = by_name(offsets.result)["cut-0"]
    assert p.error is not None
    assert "1001 in log-start-offset-checkpoint" in p.error
    assert "cut-0" not in offsets.changed()
    assert offsets.result.exit_code == 3


def test_unknown_high_watermark_leaves_log_untouched(offsets: Run) -> None:
    p = by_name(offsets.result)["unknown-hw-0"]
    assert (p.actions, p.error) == (("none",), None)
    assert "high watermark" in p.reason
    assert "unknown-hw-0" not in offsets.changed()


def test_checkpoint_keeps_entries_of_other_partitions(offsets: Run) -> None:
    assert checkpoint(offsets.log_dir / "cleaner-offset-checkpoint")["gone-7"] == 5


def test_malformed_checkpoint_leaves_whole_log_directory_untouched(
    spark: SparkSession, tmp_path: Path
) -> None:
    bad, good = small(tmp_path / "bad"), small(tmp_path / "good", "c-4p-1")
    path = bad / "cleaner-offset-checkpoint"
    path.write_text("0\n2\nc-tomb 0 0\n")
    before = files_of(bad)
    result = run(clean, spark, bad, good)
    assert changes(before, files_of(bad)) == []
    named = by_name(result)
    for name in ("c-tomb-0", "d-time-0"):
        assert str(path) in (named[name].error or "")
        assert named[name].actions == ("none",)
    assert (named["c-4p-1"].error, named["c-4p-1"].actions) == (None, ("compacted",))
    assert result.exit_code == 3


@contextmanager
def lock_held_by_child(path: Path) -> Iterator[int]:
    """As a broker holds it: a POSIX record lock."""
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child.pid
        child.communicate("")


def test_directory_in_use_is_refused_with_its_user_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0")
    before = files_of(log_dir)
    with (
        lock_held_by_child(log_dir / ".lock") as pid,
        pytest.raises(LogDirInUseError, match=rf"process {pid}\b") as caught,
    ):
        run(clean, spark, log_dir)
    assert caught.value.exit_code == 5
    assert changes(before, files_of(log_dir)) == []


def test_one_directory_in_use_leaves_all_untouched(spark: SparkSession, tmp_path: Path) -> None:
    free, used = small(tmp_path / "free", "c-tomb-0"), small(tmp_path / "used", "c-4p-1")
    before = files_of(tmp_path)
    with lock_held_by_child(used / ".lock"), pytest.raises(LogDirInUseError):
        run(clean, spark, free, used)
    assert {
        name for name in changes(before, files_of(tmp_path)) if not name.endswith(".lock")
    } == set()


def test_lock_is_held_during_a_run_and_released_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0")
    script = (
        "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    )
    codes: list[int] = []

    def try_to_lock() -> None:
        command = [sys.executable, "-c", script, str(log_dir / ".lock")]
        codes.append(subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode)

    run(clean, spark, log_dir, progress=AtStage("", try_to_lock))
    during = list(codes)
    try_to_lock()
    assert set(during) == {1}
    assert codes[-1] == 0


def test_directories_that_do_not_fit_together_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    one = small(tmp_path / "one", "c-tomb-0")
    other_cluster = new_log_dir(tmp_path / "other", cluster_id="another-cluster-000000")
    add_partition(other_cluster, "c-4p-1", "c-4p-1")
    no_log_dir = tmp_path / "parent"
    no_log_dir.mkdir()
    link = tmp_path / "link"
    link.symlink_to(one)
    before = everything(tmp_path)
    for log_dirs, words in (
        ([no_log_dir], "not a Kafka log directory"),
        ([one / "c-tomb-0"], "not a Kafka log directory"),
        ([tmp_path / "missing"], "not a Kafka log directory"),
        ([one, one], "given twice"),
        ([one, link], "given twice"),
        ([one, other_cluster], r"different cluster\.id"),
    ):
        # A look looks at the first cluster, and leaves the other one alone.
        for verb in (clean,) if other_cluster in log_dirs else (plan, clean):
            with pytest.raises(UsageError, match=words) as caught:
                run(verb, spark, *log_dirs)
            assert caught.value.exit_code == 2
    assert everything(tmp_path) == before


def test_log_directory_of_a_controller_is_refused_as_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "d", only=[METADATA_DIR])
    meta = log_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=3000"))
    (log_dir / ".kafka_cleanshutdown").unlink()  # a controller makes none
    before = files_of(log_dir)
    for verb in (plan, clean, doctor):
        with pytest.raises(UsageError) as caught:
            verb(spark, [str(log_dir)], settings=Settings(), now=NOW)
        assert str(caught.value) == (
            "the log directory of a controller: expected that of a broker, found node 3000, which "
            f"is none of the brokers 1 in {METADATA_DIR} ({log_dir}). A controller has only the "
            "metadata log, which nothing here cleans. Give the log.dirs of a broker."
        )
    assert changes(before, files_of(log_dir)) == []


def everything(directory: Path) -> dict[str, int]:
    """Every name there is, `.lock` as well, with its time."""
    return {str(path): path.lstat().st_mtime_ns for path in directory.rglob("*")}


def test_unknown_value_of_only_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = small(tmp_path / "d", "c-tomb-0")
    before = files_of(log_dir)
    with pytest.raises(UsageError):
        run(clean, spark, log_dir, only="everything")
    assert changes(before, files_of(log_dir)) == []


def test_log_directory_without_partitions_is_done(spark: SparkSession, tmp_path: Path) -> None:
    result = run(clean, spark, new_log_dir(tmp_path / "d"))
    assert (result.partitions, result.status, result.exit_code) == ((), "done", 0)
