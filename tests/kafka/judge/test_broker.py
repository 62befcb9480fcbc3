"""A real broker starts on a copy of the recorded log directory, serves it, and makes fresh data for
other tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.kafka.judge.broker import Broker


def test_broker_serves_the_recorded_log_directory(tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir")
    with Broker(
        log_dir, home=tmp_path / "home", settings={"log.cleaner.enable": "false"}
    ) as broker:
        consumed = broker.consume("read_uncommitted")
        assert not [line for line in broker.complaints if " ERROR " in line]
    assert {name for name, partition in consumed.items() if partition.stuck_at is not None} == set()
    assert consumed["c-none-0"].records == 6000
    assert consumed["d-start-0"].begin == 1234
    assert (log_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.slow
def test_another_seed_makes_other_records(tmp_path: Path) -> None:
    states = []
    for seed in (1, 2):
        with Broker(tmp_path / f"log-dir-{seed}", home=tmp_path / f"home-{seed}") as broker:
            broker.produce(seed=seed, scale=0.05, topics="c-(none|lz4)")
            partition = broker.consume()["c-none-0"]
            assert "c-lz4 cleanup.policy=compact" in broker.topic_configs().splitlines()
        assert (partition.end, partition.stuck_at) == (300, None)
        states.append(partition.state)
    assert states[0] != states[1]
