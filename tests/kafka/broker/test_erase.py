"""A real broker on the result of an erasure starts without complaint. Consumers miss the erased
records and no others.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import winnow
from tests.fixtures.data import copy_log_dir
from tests.kafka.broker.test_kafka_log import AS_IT_IS, of
from tests.kafka.broker.test_starts import HARMLESS
from tests.kafka.judge.broker import Broker
from winnow.api import erase

pytestmark = pytest.mark.spark

KEY = 6
"""Word of a consumer's line: see tests/kafka/java/Records.java."""
TOPICS = ["c-zstd", "c-lz4", "c-gzip", "c-snappy", "c-tomb", "b-txn", "t-open", "d-start"]


def where(line: str) -> tuple[str, int]:
    _, topic, partition, offset, *_ = line.split(" ")
    return f"{topic}-{partition}", int(offset)


def reached(log_dir: Path, name: str) -> int:
    """All of these logs is below the high watermark."""
    return max(int(path.stem) for path in (log_dir / name).glob("*.log"))


@pytest.mark.slow
def test_consumers_miss_only_the_erased_records(spark: SparkSession, tmp_path: Path) -> None:
    before = copy_log_dir("clean", tmp_path / "before")
    after = copy_log_dir("clean", tmp_path / "after")
    winnow.register(spark)
    consumed = of(spark, before)  # what consumers get, as test_kafka_log shows
    of_topics = [line for line in consumed if line.split(" ")[1] in TOPICS]
    keys = {text for line in of_topics if (text := line.split(" ")[KEY]).startswith("x")}
    chosen = set(sorted(keys)[::4])
    result = erase(
        spark, [str(after)], keys=[bytes.fromhex(text[1:]) for text in chosen], topics=TOPICS
    )
    assert result.proven
    wanted = [
        line
        for line in consumed
        if line.split(" ")[1] not in TOPICS
        or line.split(" ")[KEY] not in chosen
        or where(line)[1] >= reached(before, where(line)[0])
    ]
    with Broker(after, home=tmp_path / "broker", settings=AS_IT_IS) as broker:
        found = broker.records()
        broker.produce("more", topics="c-lz4")
        appended = broker.consume()["c-lz4-0"]
    assert sorted(found) == sorted(wanted)
    assert len(wanted) < len(consumed)
    assert appended.stuck_at is None
    assert [
        line for line in broker.complaints if not any(known in line for known in HARMLESS)
    ] == []
