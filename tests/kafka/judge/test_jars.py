"""Which jars judge which version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.judge.jars import JAR_LISTS, KafkaSetupError, release


def test_a_version_without_its_last_number_is_the_release_that_has_jars() -> None:
    assert release("3.9") == release("3.9.2") == "3.9.2"


def test_a_version_without_jars_is_refused_with_those_that_have() -> None:
    with pytest.raises(KafkaSetupError, match=r"no jars of Kafka 3\.9\.9: .*3\.9\.2, 4\.0\.2"):
        release("3.9.9")


@pytest.mark.parametrize("listed", sorted(JAR_LISTS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_list_has_the_broker_of_its_version(listed: Path) -> None:
    paths = [line.split()[1] for line in listed.read_text().splitlines() if line[0] != "#"]
    assert f"kafka_2.13-{listed.stem}.jar" in {path.rpartition("/")[2] for path in paths}
