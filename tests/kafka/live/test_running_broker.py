"""Winnow beside a broker that is being written to: it sees what there is, and disturbs nothing."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import winnow
from tests.fixtures.data import copy_file, copy_log_dir, copy_tree
from tests.kafka.judge.broker import Broker
from tests.kafka.live.load import BUSY, QUIET, load
from tests.session import verbs_use
from winnow import api
from winnow.cli.main import run
from winnow.errors import LogDirInUseError
from winnow.logdir.live.read_view import open_read_views
from winnow.logdir.lock import broker_on
from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    INDEX,
    LOG,
    OFFSET_CHECKPOINTS,
    SNAPSHOT,
    TIMEINDEX,
)
from winnow.policy.sources import Settings
from winnow.storage.places import Places
from winnow.verbs.verify.kinds import Kind
from winnow.words import size

pytestmark = pytest.mark.spark


@dataclass(frozen=True, slots=True)
class Running:
    broker: Broker
    log_dir: str


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker whose cleaner and retention never rest."""
    place = tmp_path_factory.mktemp("beside")
    with Broker(place / "log-dir", home=place / "home", settings=BUSY) as broker:
        broker.produce("main", scale=0.2)
        yield Running(broker, str(place / "log-dir"))


def test_no_false_findings_under_load(spark: SparkSession, running: Running) -> None:
    now = int(time.time() * 1000)
    before = holders(running)
    with load(running.broker):
        plan = winnow.plan(spark, running.log_dir)
        ahead = next(note for note in plan.notes if "--estimate" in note)
        swept = winnow.verify(spark, running.log_dir)
        found = api.doctor(spark, running.log_dir, settings=Settings(), now=now)
        why = winnow.explain(spark, running.log_dir, f"{QUIET}-0")
        assert holders(running) == before
    assert [one.error for one in plan.partitions if one.error] == []
    total = size(sum(one.bytes_before or 0 for one in plan.partitions))
    assert f"`verify` reads {total}, seconds at 50.0 MiB/s" in ahead
    assert (swept.status, swept.findings, swept.exit_code) == ("sound", (), 0)
    assert (found.exit_code, found.troubles, found.strangers) == (0, (), ())
    assert not any(start.is_harmful for start in (*swept.starts, *found.starts))
    advised = [one.arguments[0] for one in found.advice if "stopped" not in one.why]
    assert not {"recover", "clean", "verify"} & {*advised}
    for notes in (swept.notes, found.notes, why.notes):
        (beside,) = (note for note in notes if "running broker" in note)
        assert f"process {running.broker.pid}" in beside
    # Of a first start, of that topic, and of a test below.
    own = ("Performing controller activation", "c-nullkey", "as uncleanable")
    assert not [line for line in running.broker.complaints if not any(w in line for w in own)]


def test_what_if_uses_the_read_view_of_the_plan(spark: SparkSession, running: Running) -> None:
    """Whatever the broker did meanwhile."""
    with load(running.broker):
        plan = winnow.plan(spark, running.log_dir, estimate=True)
        other = plan.what_if(min_cleanable_dirty_ratio=0, min_compaction_lag_ms=0)
    again = plan.what_if(min_cleanable_dirty_ratio=0.01)
    for made in (plan, other, again):
        assert [one.error for one in made.partitions if one.error] == []
        assert made.bytes_before == plan.bytes_before
        assert made.freed_bytes is not None


def test_what_if_reads_producer_snapshots_of_the_view(
    spark: SparkSession, running: Running, tmp_path: Path
) -> None:
    """A broker removes them with their segments."""
    plan = winnow.plan(spark, running.log_dir)
    snapshots = sorted(Path(running.log_dir).glob(f"*-*/*{SNAPSHOT}"))
    away = {one: tmp_path / f"{number}" for number, one in enumerate(snapshots)}
    for snapshot, aside in away.items():
        snapshot.rename(aside)
    try:
        other = plan.what_if(min_cleanable_dirty_ratio=0, cleanup_policy="compact")
    finally:
        for snapshot, aside in away.items():
            aside.rename(snapshot)
    assert away
    assert [one.error for one in other.partitions if one.error] == []


def holders(running: Running) -> list[str]:
    """The locks on the log directory. A lock taken for an instant would show up only by chance,
    so `test_lock` counts the calls.
    """
    inode = Path(running.log_dir, ".lock").stat().st_ino
    locks = Path("/proc/locks").read_text().splitlines()
    return [line.partition(": ")[2] for line in locks if f":{inode} " in line]


def test_clean_and_recover_refuse_a_running_broker(spark: SparkSession, running: Running) -> None:
    with pytest.raises(LogDirInUseError):
        winnow.clean(spark, running.log_dir)
    with pytest.raises(LogDirInUseError):
        api.recover(running.log_dir)


def test_idle_partition_has_the_same_plan_as_after_a_stop(
    spark: SparkSession, running: Running
) -> None:
    """It is the same directory, so every figure is."""
    now = int(time.time() * 1000)
    live = winnow.plan(spark, running.log_dir, now=now)
    running.broker.stop()
    try:
        stopped = winnow.plan(spark, running.log_dir, now=now)
        assert winnow.verify(spark, running.log_dir).status == "sound"
    finally:
        running.broker.start()
    rest = {(one.topic, one.partition): one for one in stopped.partitions if one.topic == QUIET}
    assert rest
    for one in live.partitions:
        if one.topic == QUIET:
            assert one == rest[one.topic, one.partition]


def logs_of(running: Running, topics: str) -> list[Path]:
    """The closed logs of partitions to which nothing is written."""
    return [
        log
        for partition in Path(running.log_dir).glob(f"{topics}-[0-9]")
        if not partition.name.startswith("__")
        for log in sorted(partition.glob(f"*{LOG}"))[:-1]
    ]


def test_damage_is_found_while_the_broker_runs(spark: SparkSession, running: Running) -> None:
    """Put right afterwards: the broker lives on."""
    closed = [log for log in logs_of(running, "c-*") if log.with_suffix(INDEX).stat().st_size]
    bit, index, gone = sorted(closed, key=lambda path: path.stat().st_size)[-3:]
    index = index.with_suffix(INDEX)
    saved = {path: path.read_bytes() for path in (bit, index)}
    with bit.open("r+b") as file:
        file.seek(len(saved[bit]) - 3)
        file.write(bytes([saved[bit][-3] ^ 1]))
    with index.open("r+b") as file:
        file.truncate(len(saved[index]) - 3)
    away = gone.rename(gone.parent / "elsewhere")
    try:
        found = winnow.verify(spark, running.log_dir).findings
    finally:
        away.rename(gone)
        for path, data in saved.items():
            path.write_bytes(data)
    kinds = {(f"{one.log_dir}/{one.file}", one.kind) for one in found}
    expected = {(bit, Kind.CRC), (index, Kind.OFFSET_INDEX), (gone, Kind.MISSING)}
    assert {(str(path), kind) for path, kind in expected} <= kinds, found


def without_records(running: Running, topic: str) -> tuple[Path, int, bytes]:
    """The largest closed log, its first batch filled with zeros after the header; its inode, and
    its bytes before.
    """
    log = max(logs_of(running, topic), key=lambda path: path.stat().st_size)
    data = log.read_bytes()
    end = 12 + int.from_bytes(data[8:12], "big")
    with log.open("r+b") as file:
        file.seek(61)
        file.write(bytes(end - 61))
        return log, os.fstat(file.fileno()).st_ino, data


def test_uncleanable_partition_and_old_transaction_are_found_by_doctor(
    spark: SparkSession,
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The cleaner trips over records that can't be decompressed; no header shows it."""
    verbs_use(spark, monkeypatch)
    home, broker = Path(running.log_dir).with_name("home"), running.broker
    given = [running.log_dir, "--server-properties", str(home / "server.properties"), "--quiet"]

    def doctor(hours: float) -> tuple[int, str]:
        now = str(int((time.time() + hours * 3600) * 1000))
        code = run(["doctor", *given, "--summary", "--detailed-exitcode", "--now", now])
        return code, capsys.readouterr().out

    log, inode, data = without_records(running, "c-lz4")
    for seed in range(100, 110):
        broker.produce("more", seed=seed, scale=0.5, topics="c-lz4|t-closed")
        if "(c-lz4-0) as uncleanable" in broker.log:
            break
        if not log.exists() or log.stat().st_ino != inode:  # the cleaner had read it before
            log, inode, data = without_records(running, "c-lz4")
    broker.wait_until_logged(r"\(c-lz4-0\) as uncleanable", timeout_seconds=30)
    _, now = doctor(0)
    assert "passes over" not in now
    assert "seems dead" not in now, "it was due a moment ago"
    code, later = doctor(8)
    assert (code, "the cleaner seems dead" in later) == (10, True)
    assert re.search("transactions? open, up to .* d: t-closed-0", later), later
    checkpoint = Path(running.log_dir, "cleaner-offset-checkpoint")
    os.utime(checkpoint, (time.time() + 8 * 3600,) * 2)  # as if it went on with others
    code, passed = doctor(8)
    assert (code, "the cleaner passes over 1 partition: c-lz4-0" in passed) == (10, True)
    assert log.stat().st_ino == inode
    with log.open("r+b") as file:
        file.write(data)
    broker.stop()
    broker.start()


def test_renamed_segment_is_readable_through_the_read_view(running: Running) -> None:
    partition = Path(running.log_dir, f"{QUIET}-0")
    log = min(partition.glob(f"*{LOG}"))
    data = log.read_bytes()
    holder = broker_on(running.log_dir)
    assert holder is not None
    with open_read_views({running.log_dir: holder}):
        away = log.rename(log.with_name(log.name + ".deleted"))
        try:
            assert Places().read_range(str(log), 0, len(data)) == data
            assert log.name in {one.name for one in Places().list_dir(str(partition))}
        finally:
            away.rename(log)


def test_active_segment_equals_that_of_a_clean_stop(running: Running) -> None:
    """Indexes without preallocated bytes, and with the last entry that the stop adds."""
    holder = broker_on(running.log_dir)
    assert holder is not None
    names = [path.name for path in Path(running.log_dir).iterdir() if path.is_dir()]
    quiet = sorted(name for name in names if name.startswith("c-"))
    seen = {}
    with open_read_views({running.log_dir: holder}):
        for name in quiet:
            at = f"{running.log_dir}/{name}"
            active = max(one.name for one in Places().list_dir(at) if one.name.endswith(LOG))
            for suffix in (LOG, INDEX, TIMEINDEX):
                path = f"{at}/{active.removesuffix(LOG)}{suffix}"
                seen[path] = Places().read_bytes(path)
    running.broker.stop()
    try:
        after = {path: Path(path).read_bytes() for path in seen if Path(path).exists()}
    finally:
        running.broker.start()
    assert after.keys() & seen.keys()
    assert {path: seen[path] for path in after} == after


def test_kafka_log_reads_records_under_load(spark: SparkSession, running: Running) -> None:
    """Of a topic to which nothing is written, those that a consumer gets before or after: the
    cleaner removes some meanwhile. Those of others come and go.
    """
    winnow.register(spark)
    frame = spark.read.format("kafka-log").load(running.log_dir)
    before = records_of_quiet(running)
    with load(running.broker):
        rows = frame.groupBy("topic").count().collect()
    (found,) = (row["count"] for row in rows if row["topic"] == QUIET)
    assert before >= found >= records_of_quiet(running) > 0


def test_copy_of_a_live_directory_is_not_taken_for_a_crash(
    spark: SparkSession, running: Running, tmp_path: Path
) -> None:
    """Its checkpoints are copied seconds after its logs."""
    root, copy = Path(running.log_dir), tmp_path / "copy"
    copy.mkdir()
    for name in ("c-lz4-0", f"{QUIET}-0", "__cluster_metadata-0"):
        copy_tree(root / name, copy / name)
    running.broker.produce("more", seed=500, scale=0.2, topics="c-lz4")
    written = time.time()
    while (root / HIGH_WATERMARK_CHECKPOINT).stat().st_mtime < written:
        time.sleep(0.2)  # each 5 s
    for name in (*OFFSET_CHECKPOINTS, "meta.properties"):
        copy_file(root / name, copy / name)
    now = int(time.time() * 1000)
    [disk] = api.doctor(spark, str(copy), settings=Settings(), now=now).disks
    assert (disk.clean_shutdown, disk.behind) == (False, ("c-lz4-0",))


@pytest.mark.slow
def test_erased_keys_and_states_are_read_under_load(
    spark: SparkSession, running: Running, tmp_path: Path
) -> None:
    copy = copy_log_dir("clean", tmp_path / "copy", only=["c-tomb-0"])
    erased = api.erase(
        spark, str(copy), keys=[b"nobody's"], settings=Settings(), certificate=str(tmp_path / "c")
    )
    assert erased.certificate is not None
    with load(running.broker):
        found = api.verify_key_hashes(
            spark, running.log_dir, key_hash=erased.certificate, topics=[QUIET, "c-lz4"]
        )
        state = winnow.read(spark, running.log_dir, topics="c-lz4", as_of=int(time.time() * 1000))
        assert state.count() > 0
    assert (found.exit_code, found.found, found.not_searched) == (0, 0, ())
    assert any("running broker" in note for note in found.notes)


def records_of_quiet(running: Running) -> int:
    consumed = running.broker.consume("read_uncommitted").items()
    return sum(one.records for name, one in consumed if name.startswith(f"{QUIET}-"))


def test_inspect_reads_partitions_under_load(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    with load(running.broker):
        for name in ("t-open-0", "c-tomb-0", "__consumer_offsets-0", "__cluster_metadata-0"):
            code = run(["inspect", "--json", "--quiet", f"{running.log_dir}/{name}"])
            out, err = capsys.readouterr()
            assert (code, json.loads(out)["problems"]) == (0, 0)
            assert "beside its running broker" in err
