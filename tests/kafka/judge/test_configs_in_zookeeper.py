"""What ZooKeeper tells about the settings of a broker that is down, against those it used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.versions.zookeeper import ZooKeeperBroker
from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version

TOPIC = "t"
ONE = "--entity-name", "1"
ALL = ("--entity-default",)


@pytest.mark.parametrize("version", ["2.8.2", pytest.param("3.9.2", marks=pytest.mark.slow)])
def test_dynamic_settings_of_a_dead_broker_are_those_it_used(version: str, tmp_path: Path) -> None:
    log_dir, home = tmp_path / "log-dir", tmp_path / "home"
    with ZooKeeperBroker(log_dir, home=home, version=version) as broker:
        broker.kafka_configs(
            *("--entity-type", "brokers", *ALL, "--alter", "--add-config"),
            "log.retention.ms=-1,log.retention.bytes=7000000,log.cleanup.policy=[compact,delete]",
        )
        broker.kafka_configs(
            *("--entity-type", "brokers", *ONE, "--alter", "--add-config"),
            "log.cleanup.policy=compact,log.retention.bytes=8000000",
        )
        broker.create_topic(TOPIC)
        used = broker.kafka_configs(
            "--entity-type", "topics", "--entity-name", TOPIC, "--describe", "--all"
        )
        broker.stop_alone()
        stored = "".join(
            broker.configs_in_zookeeper("--entity-type", "brokers", "--describe", *whose)
            for whose in (ALL, ONE)
        )
    server = parse_server_properties((home / "server.properties").read_text())
    settings = Settings(
        topic_configs=parse_topic_configs(f"{TOPIC}\n{stored}"),
        server_properties=server,
        kafka=asked_version(version),
    )
    config = settings.resolve(TOPIC, node_id=1)
    assert isinstance(config, TopicConfig), config.reason
    assert (config.cleanup_policy, config.retention_ms) == ("compact", -1)
    for name in ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms"):
        assert f"  {name}={getattr(config, name.replace('.', '_'))} " in used
