"""After a broker's crash, only what is known to be whole and committed is cleaned; the rest is
unchanged (S8.2).

Kafka's own loader, without the marker of a clean shutdown, must find the same log on the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import CLEAN_MARKER, copy_log_dir, copy_tree
from tests.kafka.cleaner.runs import read_checkpoint, write_checkpoint
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.judge import Kafka, Loaded
from tests.log_writer.dir_writer import LogDirWriter
from tests.spark.runs import NOW, by_name, changes, clean, files_of, plan, run
from winnow.cleaning.result import PartitionResult
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings, parse_topic_set
from winnow.wire.plain import Record

pytestmark = pytest.mark.spark

BELOW = "below-recovery-point"
RECOVERY_POINTS, HIGH_WATERMARKS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)
SUFFIXES = (".log", ".index", ".timeindex")
CONFIG = {"internal.segment.bytes": 65_536, "index.interval.bytes": 512}
SETS = [
    *(f"*:{key}={value}" for key, value in CONFIG.items()),
    "*:min.cleanable.dirty.ratio=0",
    "d-time:retention.ms=1000",
    "t-open:cleanup.policy=delete",
    "t-open:retention.ms=1000",
]


@dataclass(frozen=True)
class Point:
    """`first_untouched`: base offset of the lowest segment that is not wholly below all three
    limits.
    """

    recovery_point: int | None
    high_watermark: int
    first_untouched: int
    actions: tuple[str, ...]


POINTS = {
    "c-tomb-0": Point(650, 1000, 601, ("compacted",)),
    "c-4p-1": Point(2008, 700, 648, ("compacted",)),
    "c-plain-0": Point(2116, 4000, 2116, ("compacted",)),
    # All below the recovery point, as after a restart: the active segment is not touched even so.
    "c-4p-3": Point(2140, 2140, 1960, ("compacted",)),
    # Nothing is known of it.
    "c-4p-0": Point(None, 2009, 0, ("none",)),
    "d-time-0": Point(1500, 4000, 1468, ("retained",)),
    # An open transaction: everything below it is removed.
    "t-open-0": Point(2279, 2279, 0, ("retained",)),
}


@dataclass(frozen=True)
class Crashed:
    sound: Path
    before: Path
    after: Path
    results: dict[str, PartitionResult]


def bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def crash(log_dir: Path) -> None:
    """Takes the marker away, and tears what a crash may tear."""
    (log_dir / CLEAN_MARKER).unlink()
    names = [name for name, point in POINTS.items() if point.recovery_point is not None]
    write_checkpoint(
        log_dir / RECOVERY_POINTS, {name: POINTS[name].recovery_point or 0 for name in names}
    )
    write_checkpoint(
        log_dir / HIGH_WATERMARKS, {name: point.high_watermark for name, point in POINTS.items()}
    )
    for name, point in POINTS.items():
        *closed, active = bases(log_dir / name)
        files = {suffix: log_dir / name / f"{active:020d}{suffix}" for suffix in SUFFIXES}
        if point.recovery_point != point.high_watermark:
            files[".log"].write_bytes(files[".log"].read_bytes() + bytes(5000))
        for suffix in SUFFIXES[1:]:
            files[suffix].write_bytes(files[suffix].read_bytes() + bytes(12 * 8 * 100))
        for base in closed:
            if base > (point.recovery_point or 0):
                (log_dir / name / f"{base:020d}.index").write_bytes(b"\xff" * 8)
                (log_dir / name / f"{base:020d}.timeindex").write_bytes(b"torn")


@pytest.fixture(scope="module")
def crashed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    root = tmp_path_factory.mktemp("unclean")
    sound = copy_log_dir("clean", root / "sound", only=list(POINTS))
    (sound / "cleaner-offset-checkpoint").unlink()
    before, after = root / "before", root / "after"
    copy_tree(sound, before)
    crash(before)
    copy_tree(before, after)
    return Crashed(
        sound, before, after, by_name(run(clean, spark, after, sets=SETS, unclean_shutdown=BELOW))
    )


@pytest.mark.parametrize("name", POINTS)
def test_only_segments_below_all_limits_are_touched(name: str, crashed: Crashed) -> None:
    result, point = crashed.results[name], POINTS[name]
    nothing_known = point.recovery_point is None
    assert (result.error, result.left_alone) == (None, nothing_known)
    assert result.actions == point.actions
    assert "not shut down cleanly" in result.reason
    untouched = point.first_untouched or bases(crashed.after / name)[0]
    above = [base for base in bases(crashed.before / name) if base >= untouched]
    assert above == [base for base in bases(crashed.after / name) if base >= untouched]
    changed = changes(files_of(crashed.before / name), files_of(crashed.after / name))
    assert [file for file in changed if file[:20].isdigit() and int(file[:20]) >= untouched] == []
    assert bool(changed) is (point.actions != ("none",))


def test_retention_also_stops_below_an_open_transaction(
    crashed: Crashed, kafka: Kafka, tmp_path: Path
) -> None:
    copy_tree(crashed.sound / "t-open-0", tmp_path / "t-open-0")
    stable = kafka.load(tmp_path / "t-open-0", now=NOW).state["last_stable_offset"]
    first, second, *_ = bases(crashed.after / "t-open-0")
    assert 0 < first <= stable < second < 2279


def test_files_that_show_the_crash_are_unchanged(crashed: Crashed) -> None:
    changed = changes(files_of(crashed.before), files_of(crashed.after))
    assert [file for file in changed if "/" not in file] == ["cleaner-offset-checkpoint"]
    assert not (crashed.after / CLEAN_MARKER).exists()
    cleaned = {
        name: point.first_untouched
        for name, point in POINTS.items()
        if point.actions == ("compacted",)
    }
    assert read_checkpoint(crashed.after / "cleaner-offset-checkpoint") == cleaned


@pytest.mark.parametrize(
    "name", [name for name, point in POINTS.items() if point.actions == ("compacted",)]
)
def test_kafka_cleans_the_same_with_limit_as_high_watermark(
    name: str, crashed: Crashed, kafka: Kafka, tmp_path: Path
) -> None:
    """The files of a log that did not crash, cleaned by Kafka with the limit as its high
    watermark.
    """
    point = POINTS[name]
    copy_tree(crashed.sound / name, tmp_path / name)
    limit = min(point.recovery_point or 0, point.high_watermark)
    kafka.clean(tmp_path / name, now=NOW, config=CONFIG, hw=limit)
    theirs, ours = (
        {path.name: path.read_bytes() for path in root.iterdir() if path.suffix in SUFFIXES}
        for root in (tmp_path / name, crashed.after / name)
    )
    lower = [file for file in theirs if int(file[:20]) < point.first_untouched]
    assert lower == [
        file for file in theirs if file in ours and int(file[:20]) < point.first_untouched
    ]
    assert {file: ours[file] for file in lower} == {file: theirs[file] for file in lower}


@pytest.mark.parametrize("name", POINTS)
def test_kafkas_loader_finds_the_same_log(
    name: str, crashed: Crashed, kafka: Kafka, tmp_path: Path
) -> None:
    assert_loads_alike(
        kafka, crashed.before, crashed.after, name, tmp_path, transactional=name.startswith("t-")
    )


def assert_loads_alike(
    kafka: Kafka,
    before: Path,
    after: Path,
    name: str,
    scratch: Path,
    *,
    transactional: bool = False,
) -> None:
    loaded = [
        _load(kafka, root, scratch / which, name)
        for which, root in (("before", before), ("after", after))
    ]
    was, is_now = loaded
    assert (was.error, is_now.error) == (None, None)
    assert is_now.state["end_offset"] == was.state["end_offset"]
    old, new = ({line["o"]: line for line in one.records} for one in loaded)
    assert {offset: _content(line) for offset, line in new.items()}.items() <= {
        offset: _content(line) for offset, line in old.items()
    }.items()
    # Of what was not deleted as a whole the newest record of each key is there, unless it is an
    # expired tombstone.
    start = is_now.state["start_offset"]
    newest = {} if transactional else {line["k"]: line for line in was.records}
    assert [
        line
        for line in newest.values()
        if line["o"] >= start and line["v"] and line["o"] not in new
    ] == []
    end = read_checkpoint(before / RECOVERY_POINTS).get(name, 0)
    assert [line for line in was.records if line["o"] >= end] == [
        line for line in is_now.records if line["o"] >= end
    ]


def test_plan_reports_the_same_and_changes_nothing(spark: SparkSession, crashed: Crashed) -> None:
    before = files_of(crashed.before)
    planned = by_name(run(plan, spark, crashed.before, sets=SETS, unclean_shutdown=BELOW))
    assert {name: p.actions for name, p in planned.items()} == {
        name: p.actions for name, p in POINTS.items()
    }
    assert changes(before, files_of(crashed.before)) == []


def test_damage_above_recovery_point_is_left_to_the_broker(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """Torn ends, wrong CRCs, lost indexes. Below the active segment Winnow must refuse them."""
    before, after = copy_log_dir("damaged", tmp_path / "before"), tmp_path / "after"
    (before / CLEAN_MARKER).unlink()
    names = sorted(path.name for path in before.iterdir() if path.is_dir())
    write_checkpoint(before / RECOVERY_POINTS, dict.fromkeys(names, 1223))
    copy_tree(before, after)
    sets = [
        "*:cleanup.policy=compact",
        "*:internal.segment.bytes=16384",
        "*:min.cleanable.dirty.ratio=0",
    ]
    results = by_name(run(clean, spark, after, sets=sets, unclean_shutdown=BELOW))
    done = {name for name, result in results.items() if result.error is None}
    assert done >= {"x-torn-0", "x-zerotail-0", "x-badcrc-0"}
    assert {name for name in done if "compacted" in results[name].actions} == done
    for name in names:
        if name in done:
            assert_loads_alike(kafka, before, after, name, tmp_path / name, transactional=True)
        else:
            assert changes(files_of(before / name), files_of(after / name)) == [], results[
                name
            ].error
        active = f"{1223:020d}.log"
        assert (after / name / active).read_bytes() == (before / name / active).read_bytes()
    assert not (after / CLEAN_MARKER).exists()
    assert read_checkpoint(after / RECOVERY_POINTS) == dict.fromkeys(names, 1223)


def test_killed_broker_continues_where_it_was(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    log_dir, before = tmp_path / "log-dir", tmp_path / "before"
    soon = {
        "log.initial.task.delay.ms": "200",
        "log.flush.offset.checkpoint.interval.ms": "200",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    broker = Broker(log_dir, home=tmp_path / "broker", settings=soon).start()
    try:
        broker.produce(seed=11, scale=0.3, topics="c-tomb|c-plain|cd-mixed")
        configs = broker.topic_configs()
        consumed = broker.consume()
    finally:
        broker.kill()
    assert not (log_dir / CLEAN_MARKER).exists()
    assert max(read_checkpoint(log_dir / RECOVERY_POINTS).values()) > 0
    copy_tree(log_dir, before)
    settings = Settings(
        topic_configs=parse_topic_configs(configs),
        topic_sets=(parse_topic_set("*:min.cleanable.dirty.ratio=0"),),
    )
    result = clean(
        spark,
        [str(log_dir)],
        settings=settings,
        now=NOW,
        only="compaction",
        unclean_shutdown="below-recovery-point",
    )
    done = {f"{p.topic}-{p.partition}": p for p in result.partitions}
    assert {name for name, p in done.items() if "compacted" in p.actions} >= {
        "c-tomb-0",
        "c-plain-0",
    }
    assert [p.error for p in result.partitions if p.error] == []
    for name in ("c-tomb-0", "c-plain-0", "cd-mixed-0"):
        assert_loads_alike(kafka, before, log_dir, name, tmp_path / name)
    with Broker(log_dir, home=tmp_path / "again") as broker:
        again = broker.consume()
    assert {name: (p.end, p.state, p.stuck_at) for name, p in again.items()} == {
        name: (p.end, p.state, p.stuck_at) for name, p in consumed.items()
    }


def _load(kafka: Kafka, log_dir: Path, scratch: Path, name: str) -> Loaded:
    scratch.mkdir(parents=True)
    copy_tree(log_dir / name, scratch / name)
    for checkpoint in (RECOVERY_POINTS, HIGH_WATERMARKS):
        write_checkpoint(scratch / checkpoint, read_checkpoint(log_dir / checkpoint))
    return kafka.load(scratch / name, unclean=True, now=NOW, config=CONFIG)


def _content(line: dict[str, object]) -> tuple[object, ...]:
    return (line["ts"], line["k"], line["v"])


def _uneven_ends(log_dir: Path) -> None:
    """Ten closed segments of 10 KB and an active one of 5 KB, with what a crash may leave behind
    their last batch.
    """
    value = bytes(920)
    with LogDirWriter(log_dir, clock=lambda: NOW) as writer:
        for topic in ("sound", "zeros", "torn", "crc", "closed"):
            log = writer.partition(topic, 0)
            for number in range(105):
                log.append_records([Record(number, NOW, b"key", value)])
                if number % 10 == 9 and number < 100:
                    log.roll()
    (log_dir / CLEAN_MARKER).unlink()
    active = f"{100:020d}.log"
    for topic, tail in (
        ("zeros", bytes(95_000)),
        ("torn", (log_dir / "torn-0" / active).read_bytes()[:4_500]),
    ):
        with (log_dir / f"{topic}-0" / active).open("ab") as file:
            file.write(tail)
    # The page cache may lose any page that no recovery point covers, of a closed segment, too.
    for topic, base, at in (("crc", 100, 3_000), ("closed", 80, 5_000)):
        path = log_dir / f"{topic}-0" / f"{base:020d}.log"
        data = path.read_bytes()
        path.write_bytes(data[:at] + bytes(4_000) + data[at + 4_000 :])
    write_checkpoint(
        log_dir / RECOVERY_POINTS,
        {f"{topic}-0": 100 for topic in ("sound", "zeros", "torn", "crc")},
    )
    write_checkpoint(
        log_dir / RECOVERY_POINTS, {**read_checkpoint(log_dir / RECOVERY_POINTS), "closed-0": 80}
    )
    write_checkpoint(
        log_dir / HIGH_WATERMARKS,
        {f"{t}-0": 105 for t in ("sound", "zeros", "torn", "crc", "closed")},
    )


def test_retention_counts_only_bytes_kept_by_broker_after_crash(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    _uneven_ends(tmp_path / "ours")
    copy_tree(tmp_path / "ours", tmp_path / "kafkas")
    limits = {"retention.bytes": 60_000, "retention.ms": -1, "cleanup.policy": "delete"}
    sets = [f"*:{key}={value}" for key, value in limits.items()]
    results = by_name(run(clean, spark, tmp_path / "ours", sets=sets, unclean_shutdown=BELOW))
    left: dict[str, list[int]] = {}
    for name, result in results.items():
        kafka.retain(tmp_path / "kafkas" / name, now=NOW, config=limits, unclean=True, hw=105)
        left[name] = bases(tmp_path / "ours" / name)
        assert result.error is None
        # Kafka cuts a torn closed segment and drops those after it; that is left to the broker.
        assert [base for base in left[name] if base <= 80] == [
            base for base in bases(tmp_path / "kafkas" / name) if base <= 80
        ], name
    expected = [*range(40, 101, 10)]
    assert left == {
        **dict.fromkeys(("sound-0", "zeros-0", "torn-0"), expected),
        "crc-0": expected,
        "closed-0": [*range(20, 101, 10)],
    }
