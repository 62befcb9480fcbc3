"""`verify` finds nothing wrong with what Kafka's own classes leave, and reports as torn what Kafka
truncates.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir, partition_dirs
from tests.kafka.judge.judge import Kafka
from tests.unit.cleaning.sweeps import brief, findings, swept
from winnow.logdir.names import CLEAN_SHUTDOWN

A_DAY_LATER = 1_795_300_000_000
TORN = ("x-badcrc-0", "x-torn-0", "x-zerotail-0")


@pytest.mark.parametrize("log_dir", ["clean", "legacy"])
def test_result_of_kafkas_cleaner_has_no_faults(log_dir: str, kafka: Kafka, tmp_path: Path) -> None:
    copy = copy_log_dir(log_dir, tmp_path / "log-dir")
    before = swept(copy)[1]
    kafka.clean(partition_dirs(copy), now=A_DAY_LATER, topic_configs=TOPIC_CONFIGS)
    if log_dir == "clean":
        kafka.retain(partition_dirs(copy), now=A_DAY_LATER, topic_configs=TOPIC_CONFIGS)
    found, after = swept(copy)
    assert found == []
    assert 0 < after.records < before.records


def test_torn_bytes_are_those_a_starting_broker_truncates(kafka: Kafka, tmp_path: Path) -> None:
    log_dir = copy_log_dir("damaged", tmp_path / "log-dir", only=TORN)
    (log_dir / CLEAN_SHUTDOWN).unlink()
    found = findings(log_dir)
    assert [(f.kind.value, f.topic) for f in found] == [
        ("torn-tail", name.removesuffix("-0")) for name in TORN
    ]
    kafka.open(partition_dirs(log_dir), now=A_DAY_LATER, unclean=True)
    assert [(log_dir / f.file).stat().st_size for f in found] == [f.position for f in found]
    (log_dir / CLEAN_SHUTDOWN).touch()
    assert [kind for kind, *_ in brief(log_dir)] == ["checkpoint"] * 2


def test_no_other_fault_remains_after_kafkas_recovery(kafka: Kafka, tmp_path: Path) -> None:
    """Kafka finishes leftovers and rebuilds missing files."""
    log_dir = copy_log_dir("damaged", tmp_path / "log-dir", only=["x-[cdns]*"])
    assert len(findings(log_dir)) > 10
    kafka.open(partition_dirs(log_dir), now=A_DAY_LATER, unclean=True)
    assert brief(log_dir) == []
