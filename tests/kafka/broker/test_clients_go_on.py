"""Clients that were active when their broker was stopped and its log directory cleaned.

A transactional producer, one with an open transaction, an idempotent one, a group and two consumers
in the middle of a log keep running in one process. They find everything when the broker is back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kafka.cleaner.runs import run_winnow
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.live_clients import LiveClients
from winnow.cleaning.result import PartitionResult

pytestmark = pytest.mark.spark

AS_IT_IS = {"log.cleaner.enable": "false"}


@dataclass(frozen=True)
class Story:
    before: dict[str, Any]
    results: dict[str, PartitionResult]
    after: dict[str, Any]


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    home = tmp_path_factory.mktemp("go-on")
    broker = Broker(home / "log-dir", home=home / "broker", settings=AS_IT_IS)
    with broker, LiveClients(broker.bootstrap) as clients:
        before = clients.ask("before")
        broker.stop()
        now = time.time_ns() // 1_000_000
        # The topics' settings are those of the directory's own metadata log.
        results = run_winnow(
            spark,
            home / "log-dir",
            now=now,
            topic_configs="",
            topic_sets=["*:min.cleanable.dirty.ratio=0"],
        )
        broker.start()
        after = clients.ask("after")
    return Story(before, results, after)


def test_everything_the_clients_rely_on_was_cleaned(story: Story) -> None:
    results = story.results
    assert {name: result.error for name, result in results.items() if result.error} == {}
    for topic in ("__consumer_offsets", "__transaction_state"):
        assert any("compacted" in r.actions for n, r in results.items() if n.startswith(topic)), (
            topic
        )
    for name in ("txn-0", "open-0", "idem-0", "src-0"):
        before, after = results[name].records_before, results[name].records_after
        assert results[name].actions == ("compacted",)
        assert before is not None
        assert after is not None
        assert after < before, name
    assert "has a transaction open" in results["open-0"].reason


def test_log_end_is_unchanged(story: Story) -> None:
    assert story.after["ends_before"] == story.before["ends"]


def test_transactional_id_continues_and_can_be_taken_over(story: Story) -> None:
    assert story.after["epoch_rose"] is True
    assert story.after["fenced"] in {"ProducerFencedException", "InvalidProducerEpochException"}


def test_open_transaction_is_committed_completely(story: Story) -> None:
    wanted = [f"undecided-{n}" for n in range(60)] + [f"decided-{n}" for n in range(5)]
    assert story.after["open_committed"] == wanted


def test_consumers_in_the_middle_of_the_log_continue(story: Story) -> None:
    committed = [f"{number}-{n}-c" for number in (1000, 1002) for n in range(3)]
    aborted = [f"1001-{n}-a" for n in range(3)]
    assert story.after["read_committed"] == committed
    assert story.after["read_uncommitted"] == committed[:3] + aborted + committed[3:]
    assert story.after["read_committed_position"] is True
    assert story.after["read_uncommitted_position"] is True


def test_idempotent_producer_continues_its_sequence(story: Story) -> None:
    """Its last batch was superseded and cleaned away."""
    end = story.before["ends"]["idem-0"]
    assert story.after["idempotent_offsets"] == list(range(end, end + 10))
    assert story.after["idempotent_epoch_is_the_same"] is True
    assert story.after["idempotent_sequence"] == story.before["last_sequence"] + 10


def test_duplicates_are_detected_and_gaps_refused_as_before(story: Story) -> None:
    assert story.after["duplicate"] == ["NONE", story.before["last_offset"]]
    assert story.after["gap"] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert story.after["ends_after_duplicate"] == story.before["ends"], "neither was appended"


def test_group_resumes_where_it_committed(story: Story) -> None:
    after = story.after
    assert story.before["committed"] == after["committed"] == 120
    assert after["metadata"] == "commit 150"
    assert after["resumed_at"] == 120
    assert after["committed_then"] == 200


def test_group_and_transactional_ids_are_named_as_top_users(
    story: Story,
) -> None:
    named = {(r.topic, holder.name) for r in story.results.values() for holder in r.holders}
    assert {("__consumer_offsets", "group"), ("__transaction_state", "goes-on")} <= named
