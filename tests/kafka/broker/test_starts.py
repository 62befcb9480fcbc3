"""A real broker on the result of a run starts without complaint. Its consumers and producers notice
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.kafka.cleaner.runs import run_winnow
from tests.kafka.judge.broker import Broker, Consumed
from winnow.cleaning.result import PartitionResult

pytestmark = pytest.mark.spark

A_DAY_LATER = 1_795_300_000_000
MOST = 20
"""Partitions, at least, that a run over the recorded log directory compacts."""
ALWAYS = "*:min.cleanable.dirty.ratio=0"
AS_IT_IS = {"log.cleaner.enable": "false"}
"""Nothing but what Winnow did may show: the broker does not clean, and looks at retention once a
day only.
"""
ISOLATIONS = ("read_committed", "read_uncommitted")
APPENDED_TO = ("c-lz4-0", "c-none-0")
HARMLESS = (
    "QuorumController - [QuorumController id=1] Performing controller activation.",
    "LogManager - The config `log.cleaner.enable` is deprecated",
    (
        "NetworkClient - [NodeToControllerChannelManager id=1 name=registration] Attempting to "
        "close "
        "NetworkClient"
    ),
)
"""Complaints that any single broker with these settings has, on any log directory."""
LOADING = re.compile(
    r"INFO (LogLoader|UnifiedLog|LocalLog|LogSegment|ProducerStateManager|\w+Index|LeaderEpoch\w+) "
    r"- .*"
)


@dataclass(frozen=True)
class Seen:
    """What clients of a broker saw, before and after more was written to two topics, and what the
    broker logged.
    """

    consumed: Mapping[str, Mapping[str, Consumed]]
    appended: Mapping[str, Consumed]
    complaints: list[str]
    loading: set[str]
    """What it said while it loaded its logs, names and numbers left out."""
    replayed_from: dict[str, int]
    """Partition -> offset from which the state of its producers was built."""


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    home = tmp_path_factory.mktemp("untouched")
    return _seen(copy_log_dir("clean", home / "log-dir"), home / "broker")


@pytest.fixture(scope="module")
def cleaned(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Seen, dict[str, PartitionResult]]:
    home = tmp_path_factory.mktemp("cleaned")
    log_dir = copy_log_dir("clean", home / "log-dir")
    results = _clean(spark, log_dir, A_DAY_LATER)
    return _seen(log_dir, home / "broker"), results


def test_broker_starts_without_complaint(
    cleaned: tuple[Seen, dict[str, PartitionResult]], untouched: Seen
) -> None:
    seen, results = cleaned
    assert seen.complaints == untouched.complaints == []
    assert set() < seen.loading <= untouched.loading, (
        "nothing that it would not say of the directory as it was"
    )
    # The newest snapshot is at the end of each log: nothing has to be replayed.
    assert {n: seen.replayed_from[n] for n in results} == {
        n: seen.consumed["read_uncommitted"][n].end for n in results
    }


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_consumer_reads_same_value_for_each_key(
    isolation: str, cleaned: tuple[Seen, dict[str, PartitionResult]], untouched: Seen, log_dir: Path
) -> None:
    (seen, results), before = cleaned, untouched.consumed[isolation]
    after = seen.consumed[isolation]
    assert after.keys() == before.keys() == results.keys()
    assert {n: p.stuck_at for n, p in after.items() if p.stuck_at is not None} == {}
    assert {n: p.end for n, p in after.items()} == {n: p.end for n, p in before.items()}
    kept = [n for n, result in results.items() if result.policy != "delete"]
    if isolation == "read_uncommitted":
        # Who asks for them sees aborted records only until a cleaner, Kafka's or this one, takes
        # them away.
        kept = [n for n in kept if not any((log_dir / n).glob("*.txnindex"))]
        assert len(kept) >= MOST
    assert {n: (after[n].keys, after[n].state) for n in kept} == {
        n: (before[n].keys, before[n].state) for n in kept
    }
    compacted = [n for n, result in results.items() if "compacted" in result.actions]
    assert len(compacted) >= MOST
    assert sum(after[n].records for n in compacted) < sum(before[n].records for n in compacted) / 4


def test_log_starts_where_retention_says(
    cleaned: tuple[Seen, dict[str, PartitionResult]], untouched: Seen
) -> None:
    seen, results = cleaned
    after, before = seen.consumed["read_uncommitted"], untouched.consumed["read_uncommitted"]
    assert {n: p.begin for n, p in after.items()} == {
        n: r.log_start_offset_after for n, r in results.items()
    }
    assert after["d-time-0"].begin == after["d-time-0"].end == 4000, "all of it expired"
    for name in ("d-size-0", "d-disorder-0"):
        assert before[name].begin == 0 < after[name].begin < after[name].end == before[name].end
    assert after["d-start-0"].begin == before["d-start-0"].begin == 1234
    for name in ("d-size-0", "d-disorder-0", "d-start-0"):
        assert after[name].records == after[name].end - after[name].begin, name


def test_producer_continues(
    cleaned: tuple[Seen, dict[str, PartitionResult]], untouched: Seen
) -> None:
    seen, _ = cleaned
    for name in APPENDED_TO:
        before, after = seen.consumed["read_committed"][name], seen.appended[name]
        assert after.end == before.end + 700 == untouched.appended[name].end
        assert after.records == before.records + 700
        assert after.stuck_at is None
        assert after.state == untouched.appended[name].state != before.state


def test_expired_tombstones_bring_nothing_back(
    untouched: Seen, spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir")
    horizon = A_DAY_LATER + 1000
    compacted = []
    for now in (A_DAY_LATER, horizon - 1, horizon):
        # As if all were dirty again: otherwise nothing is left to do after the first pass.
        (log_dir / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        results = _clean(spark, log_dir, now, "*:delete.retention.ms=1000", only="compaction")
        compacted.append(
            {n: r.records_after for n, r in results.items() if "compacted" in r.actions}
        )
    assert len(compacted[0]) >= MOST
    assert compacted[2]["c-tomb-0"] < compacted[1]["c-tomb-0"] == compacted[0]["c-tomb-0"]
    with Broker(log_dir, home=tmp_path / "broker", settings=AS_IT_IS) as broker:
        consumed = broker.consume()
    assert _complaints(broker) == []
    for name, before in untouched.consumed["read_committed"].items():
        assert (consumed[name].end, consumed[name].stuck_at) == (before.end, None), name
        assert consumed[name].state == before.state, name


def _clean(
    spark: SparkSession,
    log_dir: Path,
    now: int,
    *more: str,
    only: Literal["compaction"] | None = None,
) -> dict[str, PartitionResult]:
    configs = TOPIC_CONFIGS.read_text()
    return run_winnow(
        spark, log_dir, now=now, topic_configs=configs, topic_sets=[ALWAYS, *more], only=only
    )


def _seen(log_dir: Path, home: Path) -> Seen:
    with Broker(log_dir, home=home, settings=AS_IT_IS) as broker:
        consumed = {isolation: broker.consume(isolation) for isolation in ISOLATIONS}
        loaded = broker.log
        broker.produce("more", topics="|".join(name.removesuffix("-0") for name in APPENDED_TO))
        appended = broker.consume()
    # It stopped in good order, and what it said on its way down is in its log as well.
    assert (log_dir / ".kafka_cleanshutdown").exists()
    replays = re.findall(
        r"\[LogLoader partition=(\S+), .* rebuilding producer state from offset (\d+)", loaded
    )
    return Seen(
        consumed=consumed,
        appended=appended,
        complaints=_complaints(broker),
        loading={_kind(line[0], str(log_dir)) for line in LOADING.finditer(loaded)},
        replayed_from={partition: int(offset) for partition, offset in replays},
    )


def _complaints(broker: Broker) -> list[str]:
    return [line for line in broker.complaints if not any(known in line for known in HARMLESS)]


def _kind(line: str, log_dir: str) -> str:
    """What a line says, without of whom: `[LogLoader partition=c-none-0, dir=...] ... till offset
    6000`.
    """
    return re.sub(
        r"\d+",
        "N",
        re.sub(
            r"(partition=)[\w-]+", r"\1P", re.sub(re.escape(log_dir) + r"[^\s,'\])]*", "D", line)
        ),
    )
