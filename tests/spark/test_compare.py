"""`verify --compare`: replicas cleaned at different times have equal contents, and any other
difference is found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.leader_batches import Producer
from tests.log_writer.segment_writer import SegmentConfig
from tests.log_writer.writer import LogWriter
from tests.session import verbs_use
from tests.spark.runs import changes, clean, files_of
from tests.twins.encoding import encode_batch
from winnow.api import compare_replicas, erase
from winnow.cli.main import run as run_command
from winnow.errors import UsageError
from winnow.policy.sources import Settings, parse_topic_set
from winnow.state import TopicPartition
from winnow.verbs.compare.values import Comparison, DifferenceKind
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = 1_800_000_000_000
DAY_MS = 86_400_000
SETTINGS = Settings(
    topic_sets=tuple(
        map(
            parse_topic_set,
            (
                "*:cleanup.policy=compact",
                "*:min.cleanable.dirty.ratio=0",
                "*:delete.retention.ms=1000",
            ),
        )
    )
)


def put(log: LogWriter, *keys: str, value: bytes = b"v", codec: Codec = Codec.NONE) -> None:
    """One batch; a key that begins with `-` is a tombstone's."""
    records = [
        Record(0, NOW - DAY_MS, k.lstrip("-").encode(), None if k[0] == "-" else value)
        for k in keys
    ]
    log.append_records(records, codec=codec)


def keyed(log: LogWriter) -> None:
    """Superseded records, deletions, aborted and committed data over a few segments, and an active
    one.
    """
    one, two = Producer(1), Producer(2)
    for round_ in range(3):
        put(log, "a", "b", "c", "d", value=b"%d" % round_, codec=Codec.LZ4)
        log.append_records(
            [Record(0, NOW - DAY_MS, b"a", b"committed")], producer=one, transactional=True
        )
        log.append_records(
            [Record(0, NOW - DAY_MS, b"b", b"aborted")], producer=two, transactional=True
        )
        log.append_marker(two, commit=False)
        log.append_marker(one, commit=True)
        put(log, f"-{'cd'[round_ % 2]}", "e")
        log.roll()
    put(log, "b", "-e", "f")


def plain(log: LogWriter) -> None:
    for n in range(5):
        put(log, "k", value=b"%d" % n)


def without(offset: int) -> Callable[[LogWriter], None]:
    """As `plain`, but for one record."""

    def write(log: LogWriter) -> None:
        for n in range(5):
            if n != offset:
                record = Record(n, NOW - DAY_MS, b"k", b"%d" % n)
                log.append(encode_batch([record], leader_epoch=0))

    return write


def other_value(log: LogWriter) -> None:
    for n in range(5):
        put(log, "k", value=b"12" if n == 2 else b"%d" % n)


def shorter(log: LogWriter) -> None:
    for n in range(3):
        put(log, "k", value=b"%d" % n)


def nobody(log: LogWriter) -> None:
    del log


CASES: dict[str, tuple[Callable[[LogWriter], None], Callable[[LogWriter], None]]] = {
    "keyed": (keyed, keyed),
    "both": (keyed, keyed),
    "same": (plain, plain),
    "lost": (plain, without(2)),
    "found": (shorter, plain),
    "other": (plain, other_value),
    "short": (plain, shorter),
    "empty": (plain, nobody),
    "nothing": (nobody, nobody),
}


def write(path: Path, node: int) -> str:
    with LogDirWriter(path, clock=lambda: NOW - DAY_MS, node_id=node) as log_dir:
        for topic, sides in CASES.items():
            topic_id = "AAAAAAAAAAAAAAAAAAAAA" + ("Q" if (topic, node) == ("empty", 2) else "A")
            log = log_dir.partition(topic, 0, SegmentConfig(), topic_id=topic_id)
            sides[node - 1](log)
        log_dir.partition(f"own-{node}", 0)
    return str(path)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [write(tmp_path_factory.mktemp("brokers") / str(node), node) for node in (1, 2)]


def by_topic(partitions: tuple[Comparison, ...]) -> dict[str, Comparison]:
    return {one.topic: one for one in partitions}


def test_replicas_cleaned_at_different_times_show_no_difference(
    spark: SparkSession, brokers: list[str]
) -> None:
    """One broker is cleaned twice, which drops its tombstones, and the other only in part. Neither
    is a difference.
    """
    first = clean(spark, brokers, settings=SETTINGS, now=NOW, topics=["both"])
    assert [(p.log_dir, p.topic, p.actions) for p in first.partitions] == [
        (path, "both", ("compacted",)) for path in brokers
    ]
    for now in (NOW, NOW + 2 * DAY_MS):
        clean(spark, brokers[:1], settings=SETTINGS, now=now, topics=["keyed", "both"])
    before = [files_of(Path(path)) for path in brokers]
    result = compare_replicas(spark, brokers)
    assert [
        changes(was, files_of(Path(path))) for was, path in zip(before, brokers, strict=True)
    ] == [[], []]
    found = by_topic(result.comparisons)
    assert {
        topic: one.first and (one.first.kind, one.first.offset) for topic, one in found.items()
    } == {
        "keyed": None,
        "both": None,
        "same": None,
        "short": None,
        "lost": (DifferenceKind.MISSING, 2),
        "found": None,
        "other": (DifferenceKind.CONTENT, 2),
        "empty": (DifferenceKind.TOPIC, None),
        "nothing": None,
    }
    assert (result.status, result.exit_code) == ("different", 4)
    assert found["nothing"].why_not == "no replica has a committed record"
    keyed_, short = found["keyed"], found["short"]
    assert [replica.cleaned_to for replica in keyed_.replicas] == [keyed_.every_record_from, None]
    assert (short.start, short.end, short.records) == (0, 3, 6)
    assert sum("own-" in note for note in result.notes) == 2
    other = found["other"].first
    assert other is not None
    assert other.message == "the records at offset 2 differ in value (1 bytes and 2 bytes)"
    assert [(place.log_dir, place.file) for place in other.places] == [
        (path, "other-0/00000000000000000000.log") for path in brokers
    ]
    assert {place.position for place in other.places} == {2 * 70}


def test_deleted_key_that_returns_on_one_broker_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The cleaner of that broker, for example an older version, dropped the tombstone before the
    records that it deletes.
    """
    paths = [str(tmp_path / str(node)) for node in (1, 2)]
    for node, path in enumerate(paths, start=1):
        with LogDirWriter(path, clock=lambda: NOW, node_id=node) as log_dir:
            log = log_dir.partition("t", 0)
            put(log, "a", "b")
            if node == 1:
                put(log, "-a")
            log.append(encode_batch([Record(3, NOW, b"c", b"v")], leader_epoch=0))
            log_dir.cleaner_offsets[TopicPartition("t", 0)] = 3
    (one,) = compare_replicas(spark, paths).comparisons
    assert one.first is not None
    assert (one.differences, one.first.kind, one.first.offset) == (1, DifferenceKind.MISSING, 2)
    assert "a tombstone at offset 2" in one.first.message


def test_unreadable_replica_is_named(
    spark: SparkSession, brokers: list[str], tmp_path: Path
) -> None:
    """A copy has its original's node.id."""
    copy = tmp_path / "copy"
    write(copy, 1)
    log = copy / "same-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    found = by_topic(
        compare_replicas(spark, [str(copy), brokers[0]], topics=["same", "lost"]).comparisons
    )
    assert found["lost"].first is None
    first = found["same"].first
    assert first is not None
    assert (first.kind, first.places[0].log_dir) == (DifferenceKind.UNREADABLE, str(copy))
    assert "CRC" in first.message


def test_compare_command(
    spark: SparkSession,
    brokers: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verbs_use(spark, monkeypatch)
    assert run_command(["verify", "--compare", *brokers, "--topics", "s*", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "same"
    assert [partition["topic"] for partition in told["partitions"]] == ["same", "short"]
    assert run_command(["verify", "--compare", *brokers, "--topics", "[lo]*"]) == 4
    out = capsys.readouterr().out
    assert "2 of 2 partitions differ" in out
    assert f"{brokers[1]}/lost-0/00000000000000000000.log at byte 140" in out
    assert run_command(["verify", "--compare", brokers[0]]) == 2


def test_erase_refuses_several_brokers(spark: SparkSession, brokers: list[str]) -> None:
    with pytest.raises(UsageError, match="erase takes"):
        erase(spark, brokers, keys=[b"a"])
