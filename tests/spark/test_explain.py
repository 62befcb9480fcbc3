"""`explain` predicts what `clean` then does to every record of the recorded directories."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir, partition_dirs
from tests.spark.runs import (
    NOW,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    run,
    set_checkpoint,
    settings,
)
from tests.unit.cleaning.partitions import batch, make_partition, record
from winnow.api import explain
from winnow.cleaning.plan.prepare import prepare
from winnow.cleaning.plan.prepared import LeftAlone
from winnow.cleaning.request import Request
from winnow.cli import main
from winnow.errors import LogDirInUseError, UsageError
from winnow.logdir.batches import read_batches
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.fate import Verdict
from winnow.storage.local import LocalStorage
from winnow.verbs.explain.explain import places, survey_ground
from winnow.verbs.explain.find import FoundRecord, Search, find_in_segment
from winnow.verbs.explain.records import fate_of
from winnow.verbs.explain.values import Explanation, RecordFate
from winnow.wire.inflate import inflate
from winnow.wire.plain import read_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HORIZON = NOW + 86_400_000
LATER = HORIZON + 1
SETS = (
    "c-*:min.cleanable.dirty.ratio=0",
    "b-*:min.cleanable.dirty.ratio=0",
    "t-*:min.cleanable.dirty.ratio=0",
    "cd-mixed:retention.ms=570000000",
    "c-4p:cleanup.policy=compact,delete",
    "c-4p:retention.bytes=30000",
    "c-4p:retention.ms=-1",
)


JUDGED = (
    "c-tomb-*",
    "c-nullkey-*",
    "c-lat-*",
    "c-minlag-*",
    "c-zstd-*",
    "c-4p-*",
    "cd-*",
    "d-*",
    "t-*",
    "b-*",
    "__[ct]*",
)
"""Something of everything, as little of it as the recording has."""


@dataclass(frozen=True)
class Judged:
    """One whole run: the fates that were foretold, and the offsets that were there afterwards."""

    fates: Mapping[str, Mapping[int, RecordFate]]
    after: Mapping[str, frozenset[int]]


def offsets_in(directory: Path) -> frozenset[int]:
    """Of every record in the partition, read without a line of what is tested."""
    offsets: set[int] = set()
    for log in sorted(directory.glob("*.log")):
        for piece in read_batches(LocalStorage(), str(log), size=log.stat().st_size):
            blocks = inflate(piece.data, piece.rows)
            for i in range(len(piece.rows)):
                offsets |= {
                    record.offset for record in read_records(blocks.area(i), blocks.rows[i])
                }
    return frozenset(offsets)


def foretell(
    spark: SparkSession, log_dir: Path, *sets: str, now: int, after_crash: bool = False
) -> dict[str, dict[int, RecordFate]]:
    """The fate of every record, by partition, without a Spark job for each."""
    request = Request(
        settings=settings(*sets),
        topics=(),
        now=now,
        only=None,
        touch=False,
        unclean_shutdown="below-recovery-point" if after_crash else "refuse",
    )
    fates: dict[str, dict[int, RecordFate]] = {}
    for item in prepare(
        spark.sparkContext, survey_log_dirs(LocalStorage(), [str(log_dir)]), request
    ):
        if isinstance(item, LeftAlone):
            continue
        ground, search = survey_ground(spark.sparkContext, item, request, preview=True)
        records = [r for place in places(item) for r in find_in_segment(search, place).records]
        latest = latest_of_each_key(records, search)
        fates[str(item.place.topic_partition)] = {
            record.offset: fate_of(record, ground, latest=latest.get(record.key))
            for record in records
        }
    return fates


def latest_of_each_key(records: list[FoundRecord], search: Search) -> dict[bytes | None, int]:
    return {
        r.key: r.offset
        for r in records
        if search.dirty[0] <= r.offset < search.dirty[1] and r.counts
    }


def judged(spark: SparkSession, log_dir: Path, *sets: str, now: int = NOW) -> Judged:
    before = files_of(log_dir)
    fates = foretell(spark, log_dir, *sets, now=now)
    assert changes(before, files_of(log_dir)) == []
    run(clean, spark, log_dir, sets=sets, now=now)
    return Judged(
        fates, {directory.name: offsets_in(directory) for directory in partition_dirs(log_dir)}
    )


def assert_told_the_truth(found: Judged, *, of_all: bool = True) -> None:
    """`of_all`: every record that was there afterwards had been spoken of."""
    wrong = defaultdict(list)
    for name, fates in found.fates.items():
        for offset, fate in fates.items():
            if fate.verdict is not (Verdict.STAYS if offset in found.after[name] else Verdict.GOES):
                wrong[name].append((offset, fate.verdict.value, fate.rule, fate.words))
        assert found.after[name] <= set(fates) or not of_all, name
    assert not wrong, {name: (len(these), these[:3]) for name, these in wrong.items()}


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a log start offset inside of a segment, in a log that is compacted and in one that is
    not.
    """
    only = ("c-plain-0", "c-gzip-0", "b-cleaned-0", "d-*", "cd-mixed-0", "t-closed-0", "__[ct]*")
    log_dir = copy_log_dir("clean", tmp_path_factory.mktemp("explain") / "log-dir", only=only)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nd-start 0 1234\nt-closed 0 460\n")
    return log_dir


@pytest.fixture(scope="module")
def passes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Judged, ...]:
    """Three passes over one directory: at once, as all is clean, and after every horizon, all dirty
    again.
    """
    log_dir = copy_log_dir("clean", tmp_path_factory.mktemp("passes") / "log-dir", only=JUDGED)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n2\nd-start 0 1234\nt-closed 0 460\n")
    first = judged(spark, log_dir, *SETS)
    again = judged(spark, log_dir, *SETS)
    (log_dir / "cleaner-offset-checkpoint").unlink()
    later = judged(spark, log_dir, *SETS, now=LATER)
    (log_dir / "cleaner-offset-checkpoint").unlink()
    return first, again, later, judged(spark, log_dir, *SETS, now=LATER + HORIZON)


@pytest.mark.parametrize("number", range(4))
def test_every_record_has_the_predicted_fate(passes: tuple[Judged, ...], number: int) -> None:
    assert_told_the_truth(passes[number])


def test_recording_covers_all_verdicts_and_reasons(passes: tuple[Judged, ...]) -> None:
    """Otherwise the comparison would prove little. It needs both verdicts, and each reason in the
    recording.
    """
    told = Counter(
        (f.verdict.value, f.rule)
        for p in passes
        for fates in p.fates.values()
        for f in fates.values()
    )
    expected = {
        ("goes", "S5.5"),
        ("stays", "S5.5"),
        ("stays", "S3.3"),
        ("stays", "S3.2"),
        ("goes", "S5.4"),
        ("goes", "S5.8"),
        ("stays", "S5.8"),
        ("goes", "S7.3"),
        ("stays", "S7.3"),
    }
    assert expected <= set(told)
    words = " ".join(f.words for p in passes for fates in p.fates.values() for f in fates.values())
    for reason in (
        *(
            "it has no key",
            "last record of its key in",
            "its key has no record in the dirty range",
            "gets its delete horizon",
        ),
        *(
            "horizon has not passed",
            "horizon has passed",
            "its batch keeps its header",
            "has a transaction open",
        ),
        *("retention.bytes", "retention.ms", "below the log start offset", "is younger than"),
    ):
        assert reason in words, reason


def test_second_pass_removes_no_further_records(passes: tuple[Judged, ...]) -> None:
    again = Counter(f.verdict for fates in passes[1].fates.values() for f in fates.values())
    assert again[Verdict.GOES] == 0


def test_records_of_v0_and_v1_have_the_predicted_fate(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("legacy", tmp_path / "log-dir")
    names = [directory.name.rpartition("-")[0] for directory in partition_dirs(log_dir)]
    sets = [f"{name}:cleanup.policy=compact" for name in names]
    found = judged(spark, log_dir, *sets)
    assert_told_the_truth(found)
    told = Counter(f.verdict for fates in found.fates.values() for f in fates.values())
    assert set(told) == {Verdict.GOES, Verdict.STAYS}


def test_single_record_query_gives_the_same_answer(spark: SparkSession, log_dir: Path) -> None:
    """For one record of each kind of fate, with the number of Spark jobs that the query takes."""
    sets = [one for one in SETS if not one.startswith("c-4p")]  # that topic is not here
    for name in ("t-closed-0", "cd-mixed-0", "d-start-0"):
        kinds = {
            (f.verdict, f.rule): f for f in foretell(spark, log_dir, *sets, now=NOW)[name].values()
        }
        assert len(kinds) > 1
        for fate in kinds.values():
            assert ask(spark, log_dir, name, *sets, offset=fate.offset).records == (fate,)


def ask(
    spark: SparkSession, log_dir: Path, partition: str, *sets: str, **question: object
) -> Explanation:
    return explain(
        spark,
        [str(log_dir)],
        partition=partition,
        settings=settings(*sets),
        now=NOW,
        **question,  # type: ignore[arg-type]
    )


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
