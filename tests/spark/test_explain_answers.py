"""What `explain` answers: about a record, a key, a partition, and what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.explaining import (
    Judged,
    ask,
    assert_told_the_truth,
    explained_log_dir,
    foretell,
    judged,
    offsets_in,
)
from tests.spark.runs import (
    NOW,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    run,
    set_checkpoint,
)
from tests.unit.cleaning.partitions import batch, make_partition, record
from winnow.cli import main
from winnow.errors import LogDirInUseError, UsageError
from winnow.logdir.lock import lock_log_dir
from winnow.policy.fate import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return explained_log_dir(tmp_path_factory.mktemp("explain") / "log-dir")


def test_record_names_the_one_that_supersedes_it(spark: SparkSession, log_dir: Path) -> None:
    foretold = foretell(spark, log_dir, now=NOW)["c-plain-0"]
    goes = next(
        fate for fate in foretold.values() if fate.rule == "S5.5" and fate.verdict is Verdict.GOES
    )
    stays = next(
        fate for fate in foretold.values() if fate.rule == "S5.5" and fate.verdict is Verdict.STAYS
    )
    for fate in (goes, stays):
        assert ask(spark, log_dir, "c-plain-0", offset=fate.offset).records == (fate,)
    facts = {fact.name: fact.value for fact in goes.facts}
    assert foretold[int(str(facts["superseded_by"]))].key == goes.key
    assert int(str(facts["superseded_by"])) > goes.offset
    assert goes.segment is not None
    assert goes.segment <= goes.offset


def test_key_lists_the_fates_of_all_its_records(spark: SparkSession, log_dir: Path) -> None:
    foretold = foretell(spark, log_dir, now=NOW)["c-gzip-0"]
    keys = Counter(fate.key for fate in foretold.values())
    key, count = keys.most_common(1)[0]
    assert key is not None
    assert count > 2
    found = ask(spark, log_dir, "c-gzip-0", key=key)
    assert found.records == tuple(fate for fate in foretold.values() if fate.key == key)
    assert found.older == 0
    assert ask(spark, log_dir, "c-gzip-0", key=key + b"-no-such-key").records == ()


def test_partition_shows_its_rule_and_figures(spark: SparkSession, log_dir: Path) -> None:
    found = ask(spark, log_dir, "c-plain-0")
    facts = {fact.name: fact.value for fact in found.facts}
    assert (found.rule, found.actions, found.policy, found.exit_code) == (
        "S3.4",
        ("compacted",),
        "compact",
        0,
    )
    assert facts["first_uncleanable_offset"] == facts["active_segment"]
    assert facts["dirty_ratio"] == 1
    assert [s.base_offset for s in found.segments] == sorted(
        int(p.stem) for p in (log_dir / "c-plain-0").glob("*.log")
    )
    assert found.segments[-1].fate.rule == "S3.2"
    assert found.records == ()
    sources = {setting.key: setting.source for setting in found.settings}
    assert "topic-configs" in sources["cleanup.policy"] or "topic" in sources["cleanup.policy"]


@pytest.mark.parametrize(
    ("partition", "rule", "action"),
    [
        ("b-cleaned-0", "S3.4", "none"),
        ("d-time-0", "S7.3", "retained"),
        ("__transaction_state-0", "S3.2", "none"),
    ],
)
def test_each_partition_shows_its_rule_and_action(
    spark: SparkSession, log_dir: Path, partition: str, rule: str, action: str
) -> None:
    found = ask(spark, log_dir, partition)
    assert (found.rule, found.actions) == (rule, (action,))


def test_retention_rule_that_deletes_a_segment_is_named(spark: SparkSession, log_dir: Path) -> None:
    by_start = ask(spark, log_dir, "d-start-0", offset=1234 - 1000)
    assert (by_start.records[0].verdict, by_start.records[0].rule) == (Verdict.GOES, "S7.3")
    assert "log start offset 1234" in by_start.records[0].words
    by_size = ask(spark, log_dir, "d-size-0", offset=0)
    assert "retention.bytes" in by_size.records[0].words
    by_time = ask(spark, log_dir, "d-time-0", offset=0)
    assert "retention.ms" in by_time.records[0].words


def test_missing_offset_is_reported(spark: SparkSession, log_dir: Path) -> None:
    end = checkpoint(log_dir / "replication-offset-checkpoint")["c-plain-0"]
    assert ask(spark, log_dir, "c-plain-0", offset=end).records[0].verdict is Verdict.ABSENT
    cleaned = set(range(end)) - offsets_in(log_dir / "b-cleaned-0")
    assert (
        ask(spark, log_dir, "b-cleaned-0", offset=min(cleaned)).records[0].verdict is Verdict.ABSENT
    )


def test_unclean_shutdown_keeps_records_with_its_rule(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0"])
    (log_dir / ".kafka_cleanshutdown").unlink()
    found = ask(spark, log_dir, "c-tomb-0", offset=0, unclean_shutdown="refuse")
    assert (found.rule, found.left_alone, found.records[0].verdict) == ("S8.2", True, Verdict.STAYS)


def test_after_crash_only_trusted_records_have_fates(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-4p-0", "t-closed-0", "d-time-0"])
    (log_dir / ".kafka_cleanshutdown").unlink()
    trusted = {}
    points = log_dir / "recovery-point-offset-checkpoint"
    for name in ("c-4p-0", "t-closed-0", "d-time-0"):
        bases = sorted(int(path.stem) for path in (log_dir / name).glob("*.log"))
        trusted[name] = bases[-2]
        set_checkpoint(points, name, bases[-2] + 1)
    fates = foretell(spark, log_dir, now=NOW, after_crash=True)
    assert {name: max(told) < trusted[name] for name, told in fates.items()} == dict.fromkeys(
        trusted, True
    )
    beyond = ask(
        spark, log_dir, "c-4p-0", offset=trusted["c-4p-0"], unclean_shutdown="below-recovery-point"
    )
    assert (beyond.records[0].verdict, beyond.records[0].rule) == (Verdict.STAYS, "S8.2")
    run(clean, spark, log_dir, unclean_shutdown="below-recovery-point")
    found = Judged(fates, {name: offsets_in(log_dir / name) for name in trusted})
    assert_told_the_truth(found, of_all=False)
    assert {f.verdict for f in fates["c-4p-0"].values()} == {Verdict.GOES, Verdict.STAYS}
    assert {f.verdict for f in fates["d-time-0"].values()} == {Verdict.GOES}


@pytest.mark.usefixtures("spark")
def test_unclean_shutdown_option_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-4p-0"])
    (log_dir / ".kafka_cleanshutdown").unlink()
    monkeypatch.setenv(
        "PYSPARK_GATEWAY_PORT", "as under spark-submit: the session that is there is taken"
    )
    command = [
        "explain",
        str(log_dir),
        "--partition",
        "c-4p-0",
        "--topic-set",
        "*:cleanup.policy=compact",
        "--json",
    ]
    told = {}
    for choice in ("refuse", "below-recovery-point"):
        assert main.run([*command, "--unclean-shutdown", choice]) == 0
        told[choice] = json.loads(capsys.readouterr().out)
    assert main.run(command) == 0
    read = json.loads(capsys.readouterr().out)
    assert (read["rule"], read["actions"]) == ("S3.4", ["compacted"])
    assert "the log was read from segment" in read["reason"]
    assert (told["refuse"]["rule"], told["refuse"]["left_alone"]) == ("S8.2", True)
    trusted = told["below-recovery-point"]
    assert (trusted["rule"], trusted["left_alone"], trusted["actions"]) == (
        "S3.4",
        False,
        ["compacted"],
    )
    limit = checkpoint(log_dir / "recovery-point-offset-checkpoint")["c-4p-0"]
    assert trusted["facts"]["trusted_end"] == limit
    assert "only segments that lie entirely below offset" in trusted["reason"]


def test_segment_to_be_split_is_explained(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    far = 2**31 + 5
    first = [batch(record(0, b"a")), batch(record(1, b"b"))]
    partition = make_partition(
        log_dir / "c-plain-0", {0: first, far + 1: [batch(record(far + 1, b"a"))]}
    )
    with (partition / f"{0:020d}.log").open("ab") as log:  # no index can have an entry for it
        log.write(batch(record(far, b"a")))
    set_checkpoint(log_dir / "replication-offset-checkpoint", "c-plain-0", far + 2)
    found = ask(spark, log_dir, "c-plain-0", offset=0)
    assert {fact.name: fact.value for fact in found.facts}["split_first"] == 1
    assert (found.records[0].verdict, found.records[0].rule) == (Verdict.GOES, "S5.5")
    assert_told_the_truth(judged(spark, log_dir))


def test_damage_is_reported_as_an_error(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0"])
    log = min((log_dir / "c-tomb-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    found = ask(spark, log_dir, "c-tomb-0", key=b"k")
    assert found.exit_code == 3
    assert found.error is not None
    assert "CRC" in found.error


def test_missing_partition_is_a_usage_error(spark: SparkSession, log_dir: Path) -> None:
    for name in ("no-such-0", "c-plain", "__cluster_metadata-0"):
        with pytest.raises(UsageError):
            ask(spark, log_dir, name)
    with pytest.raises(UsageError):
        ask(spark, log_dir, "c-plain-0", offset=1, key=b"k")


def test_explain_refuses_a_directory_in_use(spark: SparkSession, log_dir: Path) -> None:
    with lock_log_dir(str(log_dir)), pytest.raises(LogDirInUseError):
        ask(spark, log_dir, "c-plain-0")


def test_explain_changes_nothing(spark: SparkSession, log_dir: Path) -> None:
    before = files_of(log_dir)
    ask(spark, log_dir, "cd-mixed-0", "cd-mixed:retention.ms=570000000", offset=100)
    ask(spark, log_dir, "c-plain-0", key=b"k")
    assert changes(before, files_of(log_dir)) == []
