"""What Winnow knows of wrong values in a server.properties, against Kafka's own `KafkaConfig`."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kafka.judge.jars import printed_lines
from tests.kafka.judge.test_settings_of_versions import VERSIONS
from winnow.policy.versions import asked_version
from winnow.start.nodes.broker_values import settings_of, why_value_refused

KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@localhost:9093",
}
WITH_ZOOKEEPER = {"broker.id": "1", "zookeeper.connect": "localhost:2181"}
BEFORE_3_4 = ("2.8.2", "3.0.2")
VALUES = ("", "x", "yes", "TRUE", "1.5", "-32769", "-2", "-1", "0", "1", "1000000", "2147483648")
REFUSED: tuple[dict[str, str], ...] = (
    {"controller.quorum.voters": f"{'9' * 5000}@localhost:9093"},
    {"process.roles": "broker,"},
    {"process.roles": "Broker"},
    {"node.id": "-1"},
    {"node.id": "2"},
    {"node.id": "1000"},
    {"broker.id": "2"},
    {"controller.quorum.voters": "1@localhost"},
    {"controller.quorum.voters": "x@localhost:9093"},
    {"controller.quorum.voters": "1@localhost:9093,"},
    {"controller.quorum.voters": "1:localhost:9093"},
    {"process.roles": "broker", "listeners": "PLAINTEXT://localhost:9092"},
    {"listeners": "foo"},
    {"listeners": "PLAINTEXT:/localhost:9092,CONTROLLER://localhost:9093"},
    {"replica.fetch.wait.max.ms": "100000"},
    {"replica.lag.time.max.ms": "1"},
    {"queued.max.request.bytes": "1"},
    {"log.cleaner.dedupe.buffer.size": "1000"},
    {"log.cleaner.threads": "0"},
    {"log.roll.ms": "0"},
    {"offsets.topic.compression.codec": "9"},
    {"num.io.threads": "0"},
    {"num.network.threads": ""},
    {"auto.create.topics.enable": "yes"},
)
ACCEPTED: tuple[dict[str, str], ...] = (
    {},
    {"controller.quorum.voters": f"{'0' * 5000}1@localhost:9093"},
    {"process.roles": " broker , controller "},
    {"broker.id": "1"},
    {"controller.quorum.voters": "1@[::1]:9093, 2@host-2.example.com:1"},
    {"process.roles": "broker", "listeners": "PLAINTEXT://:9092", "node.id": "2"},
    {"listeners": "PLAINTEXT://[::1]:9092, CONTROLLER://:9093"},
    {"queued.max.request.bytes": "-1"},
    {"num.io.threads": "+8"},
)


@cache
def answers(version: str, files: tuple[str, ...]) -> list[str]:
    lines = printed_lines("ServerSettings", files, version=version)
    found = [line for line in lines if line.partition(" ")[0] in {"yes", "no"}]
    assert len(found) == len(files)
    return found


def text_of(values: dict[str, str]) -> str:
    return "|".join(f"{key}={value}" for key, value in values.items())


def refused(values: dict[str, str], version: str) -> str | None:
    own = {key: value.strip() for key, value in values.items()}
    return why_value_refused(own, asked_version(version), file="it", unknown=())


@pytest.mark.parametrize("version", VERSIONS)
def test_values_that_winnow_takes_for_refused_are_refused(version: str) -> None:
    base = WITH_ZOOKEEPER if version in BEFORE_3_4 else KRAFT
    files = [base | {name: value} for name in settings_of(version) for value in VALUES]
    told = [one for one in files if refused(one, version)]
    assert len(told) > 500
    said = answers(version, tuple(map(text_of, [base, *told])))
    assert said[0] == "yes"
    wrong = [one for one, text in zip(told, said[1:], strict=True) if text == "yes"]
    assert wrong == []


@pytest.mark.parametrize("version", [one for one in VERSIONS if one.values[0] not in BEFORE_3_4])
def test_settings_fit_each_other_as_in_kafka(version: str) -> None:
    files = [KRAFT | changes for changes in (*REFUSED, *ACCEPTED)]
    said = answers(version, tuple(map(text_of, files)))
    found = [text.partition(" ")[0] == "no" for text in said]
    assert found == [True] * len(REFUSED) + [False] * len(ACCEPTED), [
        *zip(files, said, strict=True)
    ]
    assert [refused(one, version) is not None for one in files] == found
