"""What `kafka-configs` of each version really printed is read in full."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures.data import HERE
from tests.kafka.versions.eras import ERAS
from winnow.policy.config import BY_BROKER_NAME, KEYS
from winnow.policy.describe import DescribedConfigs, parse_topic_configs
from winnow.policy.ignored_settings import CLEANER_TUNING, TOPIC_KEYS

OPTION = HERE / "kafka-configs" / "2.8.2-zookeeper-option.txt"
OUTPUTS = sorted({*(HERE / "kafka-configs").glob("*.txt")} - {OPTION})
FIVE_DAYS_MS = 432_000_000


def values(found: DescribedConfigs, kind: str, topic: str) -> dict[str, object]:
    return {key: entry.value for key, entry in found.of(kind, topic).items()}


def topics(found: DescribedConfigs) -> int:
    return len([name for kind, name in found.entries if kind == "topic"])


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda path: path.stem)
def test_topics_of_a_real_output_have_their_settings(output: Path) -> None:
    found = parse_topic_configs(output.read_text(encoding="utf-8"))
    assert values(found, "topic", "d-time")["retention.ms"] == FIVE_DAYS_MS
    assert values(found, "topic", "d-size")["retention.bytes"] == 30_000
    both = values(found, "topic", "cd-both")
    assert both["cleanup.policy"] == "compact,delete"
    effective = values(found, "effective", "cd-both")
    assert effective["min.cleanable.dirty.ratio"] == 1.0
    assert effective["retention.ms"] == -1
    assert topics(found) >= 28 - 5


def test_output_of_the_option_zookeeper_has_the_settings_of_all_topics() -> None:
    text = OPTION.read_text(encoding="utf-8")
    assert text.startswith("Warning: --zookeeper is deprecated")
    found = parse_topic_configs(text)
    assert values(found, "topic", "d-time")["retention.ms"] == FIVE_DAYS_MS
    assert values(found, "topic", "cd-both")["cleanup.policy"] == "compact,delete"
    assert topics(found) >= 28 - 5
    assert found.notes == ()


def test_brokers_print_every_name_of_a_topic_setting() -> None:
    printed = {
        name
        for output in OUTPUTS
        for name in re.findall(r"[\w.]+(?==)", output.read_text(encoding="utf-8"))
    }
    known = {key.name for key in KEYS if not key.broker_only}
    assert not known - printed, "no broker prints these: are the names Kafka's?"


def test_no_setting_is_both_known_and_ignored() -> None:
    known = {key.name for key in KEYS}
    assert not known & TOPIC_KEYS.keys(), "remove these from policy/ignored_settings.py"
    assert not BY_BROKER_NAME.keys() & CLEANER_TUNING


def test_each_version_has_a_real_output() -> None:
    """Made by `python -m tests.kafka.versions --record`."""
    assert {path.stem for path in OUTPUTS} == {era.name for era in ERAS}
