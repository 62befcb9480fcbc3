"""Settings with which a broker does not start (`LogConfig`, `KafkaConfig`). Brokers judge the same
values in `tests/kafka/starts` (`rare.py`).
"""

from __future__ import annotations

import pytest

from winnow.policy.metadata import metadata_settings
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.versions import ANY_VERSION, KnownVersion, asked_version
from winnow.start.nodes.refused_settings import why_refused


def refused(key: str, value: str, kafka: KnownVersion) -> str | None:
    sections = {("topic", "t"): {key: (value, "offset 7")}}
    own = metadata_settings(log="the log", topics={}, sections=sections).configs
    return why_refused(None, own, kafka)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "foo"),
        ("retention.ms", "abc"),
        ("compression.type", "xyz"),
        ("min.insync.replicas", "0"),
        ("leader.replication.throttled.replicas", "x"),
        ("segment.bytes", "13"),
    ],
)
def test_topic_config_that_every_version_refuses(key: str, value: str) -> None:
    for kafka in (ANY_VERSION, asked_version("3.9.2"), asked_version("4.3.1")):
        found = refused(key, value, kafka)
        assert found is not None
        assert found.startswith(f"the broker refuses a setting of topic t: {key} ")


def test_topic_config_that_only_earlier_versions_know() -> None:
    assert refused("message.format.version", "9.9", asked_version("3.9.2")) is not None
    assert refused("message.format.version", "9.9", asked_version("4.3.1")) is None


def test_topic_config_that_only_later_versions_refuse() -> None:
    assert refused("segment.bytes", "1000", asked_version("3.9.2")) is None
    assert refused("segment.bytes", "1000", ANY_VERSION) is None
    found = refused("segment.bytes", "1000", asked_version("4.3.1"))
    assert found is not None
    assert "out of range for Kafka 4.3.1" in found


@pytest.mark.parametrize(
    ("key", "value"),
    [("foo.bar", "1"), ("preallocate", " TRUE "), ("leader.replication.throttled.replicas", "*")],
)
def test_accepted_and_unknown_topic_configs(key: str, value: str) -> None:
    assert refused(key, value, asked_version("4.3.1")) is None


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("log.retention.hours=abc", True),
        ("log.segment.bytes=1024", True),
        ("log.retention.hours=${file:/etc/x:y}", False),
        ("log.retention.hours=-1", False),
        ("some.plugin=abc", False),
        ("num.io.threads=0", True),
        ("num.io.threads=${file:/etc/x:y}", False),
        ("zookeeper.session.timeout.ms=x", False),
        ("process.roles=broker,foo", True),
    ],
)
def test_server_properties(line: str, *, is_refused: bool) -> None:
    server = parse_server_properties(f"node.id=1\n{line}\nconfig.providers=file\n")
    own = metadata_settings(log="the log", topics={}, sections={}).configs
    assert (why_refused(server, own, asked_version("4.3.1")) is not None) == is_refused
