"""Beside followers that truncate their logs, nothing is found that is not there (S8.11)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import winnow
from tests.kafka.judge.jars import KAFKA_VERSION
from tests.kafka.live.truncating import truncating
from winnow import api
from winnow.policy.sources import Settings

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS = 400
LEAST = 10
"""Truncations below a high watermark."""


def test_no_false_findings_while_followers_truncate(spark: SparkSession, tmp_path: Path) -> None:
    wrong: list[object] = []
    with truncating(tmp_path / "cluster", KAFKA_VERSION) as followers:
        end = time.monotonic() + SECONDS
        while followers.truncations < LEAST and time.monotonic() < end:
            for node in followers.nodes:
                log_dir, now = str(node.log_dir), int(time.time() * 1000)
                plan = winnow.plan(spark, log_dir, estimate=True)
                wrong += [one.error for one in plan.partitions if one.error]
                swept = winnow.verify(spark, log_dir)
                found = api.doctor(spark, log_dir, settings=Settings(), now=now)
                wrong += [*swept.findings, *(one for one in found.troubles if one.error)]
                for starts in (swept.starts, found.starts):
                    wrong += [start for start in starts if start.is_harmful]
        assert followers.truncations >= LEAST
    assert wrong == []
