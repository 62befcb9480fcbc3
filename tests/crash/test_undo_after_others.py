"""A run keeps what it replaces, a broker appends and cleans, and then the run is undone. Nothing
deleted comes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.crash.replay import crash_points
from tests.crash.runs import files_of, read_log
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.txn_scripts import HOUR_MS, NOW, Script
from tests.kafka.judge.judge import Kafka
from tests.log_writer.dir_writer import LogDirWriter
from tests.spark.runs import clean
from winnow.api import erase, recover
from winnow.cleaning.result import RunResult
from winnow.cli.text.erase import page
from winnow.logdir.commit.kept import RUN_JSON, close_kept, read_kept
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG, TXNINDEX
from winnow.policy.sources import Settings, parse_topic_set
from winnow.recovery.runs.values import Action
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Half = Literal["retention", "compaction"] | None
DAY_MS = 24 * HOUR_MS
COMPACT = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 100,
    "min.cleanable.dirty.ratio": 0,
}
BOTH = COMPACT | {"cleanup.policy": "compact,delete", "retention.bytes": 400, "retention.ms": -1}


def aborted(s: Script) -> None:
    """The marker is in the segment that is active when the run compacts the first one."""
    s.data(1, "a", "b")
    s.put("c")
    s.roll()
    s.put("x")
    s.roll()
    s.abort(1)
    s.idempotent(1, "z")  # so that no data batch must be kept for the producer


def committed(s: Script) -> None:
    s.data(1, "a")
    s.put("c")
    s.roll()
    s.put("a")
    s.roll()
    s.commit(1)
    s.idempotent(1, "z")


def secret(s: Script) -> None:
    s.put("secret", "a")
    for key in "bcdefg":
        s.roll()
        s.put(key, key * 20)


def write(root: Path, script: Callable[[Script], object]) -> Path:
    with LogDirWriter(root, clock=lambda: NOW - HOUR_MS, cluster_id="c") as log_dir:
        s = Script(log_dir.partition("t", 0))
        s.epochs = {1: 0}
        script(s)
    return root / "t-0"


def more(s: Script, *, key: str) -> None:
    s.roll()
    s.put(key)
    s.roll()
    s.put("z")


def keep(
    spark: SparkSession, root: Path, config: Mapping[str, object], *, only: Half = None
) -> RunResult:
    sets = tuple(parse_topic_set(f"t:{name}={value}") for name, value in config.items())
    result = clean(
        spark,
        [str(root)],
        settings=Settings(topic_sets=sets),
        now=NOW,
        keep_replaced=True,
        only=only,
    )
    assert result.partitions[0].kept_bytes, result
    return result


def kafka_cleans(
    kafka: Kafka, directory: Path, *, now: int, config: Mapping[str, object] = COMPACT
) -> int:
    """What a broker of that clock does to the log: how many rounds its cleaner took."""
    answer = kafka.attend([directory], now=now, hw_checkpoint=True, config=config)[directory]
    assert "error" not in answer, answer
    return int(answer["rounds"])


def go_on(kafka: Kafka, directory: Path, *, tombstone: str = "later") -> None:
    """More is written, and what is left of a transaction or a tombstone is kept for its time and
    then dropped.
    """
    for key, now in ((f"-{tombstone}", NOW + HOUR_MS), ("q", NOW + 3 * DAY_MS)):
        write(directory.parent, partial(more, key=key))
        assert kafka_cleans(kafka, directory, now=now)


def assert_refused(directory: Path, run_id: str, why: str) -> None:
    before = {
        str(path): path.read_bytes() for path in directory.parent.rglob("*") if path.is_file()
    }
    result = recover([str(directory.parent)], undo_run=run_id)
    assert why in (result.partitions[0].error or ""), result
    assert result.exit_code == 3
    assert {
        str(path): path.read_bytes() for path in directory.parent.rglob("*") if path.is_file()
    } == before


@pytest.mark.parametrize("script", [aborted, committed])
def test_undo_is_refused_when_kafka_has_dropped_the_marker(
    script: Callable[[Script], None], spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    directory = write(tmp_path / "log", script)
    result = keep(spark, tmp_path / "log", COMPACT)
    outputs = files_of(directory, LOG)
    go_on(kafka, directory)
    assert min(outputs.items()) == min(files_of(directory, LOG).items()), (
        "what the run left is still there"
    )
    assert not any(files_of(directory, TXNINDEX).values()), (
        "nothing tells of the transaction any more"
    )
    assert_refused(directory, result.run_id, "the log has changed since the run")


def test_undo_is_refused_when_a_tombstone_was_written_and_cleaned(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    directory = write(tmp_path / "log", secret)
    result = keep(spark, tmp_path / "log", BOTH, only="retention")
    assert b"secret" not in read_log(directory).state
    go_on(kafka, directory, tombstone="secret")
    assert b"secret" not in read_log(directory).newest, "not even as a tombstone"
    assert_refused(directory, result.run_id, "the log has changed since the run")
    # It is also refused if the checkpoint is lost, because appended records are missing.
    (tmp_path / "log" / CLEANER_CHECKPOINT).unlink()
    assert_refused(directory, result.run_id, "the log has changed since the run")


@pytest.mark.parametrize("config", [COMPACT, BOTH, BOTH | {"cleanup.policy": "delete"}])
def test_undo_keeps_what_was_appended_and_is_refused_once_kafka_has_cleaned(
    config: Mapping[str, object], spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    directory = write(
        tmp_path / "log", secret if "delete" in str(config["cleanup.policy"]) else aborted
    )
    before = read_log(directory).by_offset
    result = keep(spark, tmp_path / "log", config)
    write(tmp_path / "log", partial(more, key="new" * 200))
    appended = read_log(directory).by_offset
    copy = tmp_path / "copy"
    copy_tree(tmp_path / "log", copy)
    (undone,) = recover([str(copy)], undo_run=result.run_id).partitions
    assert (undone.error, undone.actions) == (None, (Action.UNDONE,))
    assert read_log(copy / "t-0").by_offset == before | appended
    logs = files_of(directory, LOG)
    kafka_cleans(kafka, directory, now=NOW + HOUR_MS, config=config)
    assert files_of(directory, LOG) != logs
    assert_refused(directory, result.run_id, "the log has changed since the run")


def test_run_kept_by_older_version_can_only_be_purged(spark: SparkSession, tmp_path: Path) -> None:
    directory = write(tmp_path / "log", aborted)
    result = keep(spark, tmp_path / "log", COMPACT)
    manifest = directory / f".winnow-kept-{result.run_id}" / RUN_JSON
    fields = json.loads(manifest.read_text())
    del fields["log"], fields["cleaner_checkpoint_after"]
    manifest.write_text(json.dumps(fields))
    assert_refused(directory, result.run_id, "an older version of Winnow kept it")
    (purged,) = recover([str(tmp_path / "log")], purge_run=result.run_id).partitions
    assert (purged.error, purged.actions, purged.kept) == (None, (Action.PURGED,), ())


def test_erasure_closes_undo_of_earlier_runs(spark: SparkSession, tmp_path: Path) -> None:
    """The key is in no segment any more, only in the kept files."""
    directory = write(tmp_path / "log", secret)
    result = keep(spark, tmp_path / "log", BOTH, only="retention")
    dry = erase(spark, [str(tmp_path / "log")], keys=[b"secret"], dry_run=True)
    assert dry.partitions[0].closed_undos == ()
    assert recover([str(tmp_path / "log")], undo_run=result.run_id, dry_run=True).exit_code == 0
    erased = erase(spark, [str(tmp_path / "log")], keys=[b"secret"])
    # The kept files still have the key.
    assert (erased.status, erased.proven, erased.partitions[0].closed_undos) == (
        "partial",
        None,
        (result.run_id,),
    )
    told = (
        f"t-0: run {result.run_id} can't be undone after this erasure; `recover --purge "
        f"{result.run_id}` removes what it kept"
    )
    assert told in page(erased)
    assert_refused(directory, result.run_id, f"an erasure (run {erased.run_id})")
    (kept,) = recover([str(tmp_path / "log")]).partitions[0].kept
    assert kept.closed_by == f"an erasure (run {erased.run_id})"
    recover([str(tmp_path / "log")], purge_run=result.run_id)
    assert erase(spark, [str(tmp_path / "log")], keys=[b"secret"]).status == "done"


def test_run_is_closed_even_if_closing_was_interrupted(spark: SparkSession, tmp_path: Path) -> None:
    directory = write(tmp_path / "log", aborted)
    result = keep(spark, tmp_path / "log", COMPACT)
    pristine = tmp_path / "pristine"
    copy_tree(tmp_path / "log", pristine)
    closed = []
    for point in crash_points(
        pristine, tmp_path / "crash", lambda s, root: close_kept(s, f"{root}/t-0", why="a test")
    ):
        (found,) = recover([str(point.root)], undo_run=result.run_id).partitions
        closed.append(found.error is not None)
    assert closed == [False, True, True, True]
    assert not read_kept(LocalStorage(), str(directory), result.run_id).closed_by


def test_undo_is_refused_when_an_abort_marker_has_no_entry_in_its_index(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Consumers skip aborted records by the index. Retention does not look at transactions and has
    removed the data.
    """
    directory = write(tmp_path / "log", aborted)
    for index in directory.glob(f"*{TXNINDEX}"):
        index.write_bytes(b"")
    result = keep(spark, tmp_path / "log", BOTH | {"retention.bytes": 200}, only="retention")
    assert_refused(
        directory, result.run_id, "the transaction index and the markers in the log disagree"
    )
