"""The settings that Winnow reads from a real broker's metadata log are those that `kafka-configs`
shows.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from tests.kafka.judge.broker import Broker
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.meta import read_topic_id
from winnow.logdir.metadata import read_cluster_metadata
from winnow.logdir.metadata_log import list_snapshots
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.keys import NOT_DYNAMIC
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings, Unknown
from winnow.state import ALL_BROKERS, Texts
from winnow.storage.local import LocalStorage

SMALL_SNAPSHOTS = {
    # A snapshot after nearly every change.
    "metadata.log.max.record.bytes.between.snapshots": "1",
    "metadata.log.max.snapshot.interval.ms": "100",
    "metadata.max.idle.interval.ms": "100",
}
SECTION = re.compile(r"(?:Dynamic|Default) configs for (.+) are:")
LINE = re.compile(r"  (\S+?)=(.*) sensitive=(?:true|false) synonyms=\{.*\}")
WAIT_SECONDS = 30


def described(text: str) -> dict[str, dict[str, str]]:
    """`kafka-configs --describe` by entity; nothing is left out silently."""
    found: dict[str, dict[str, str]] = {}
    entity = ""
    for line in text.splitlines():
        if section := SECTION.fullmatch(line):
            entity = section[1]
            found.setdefault(entity, {})
        else:
            pair = LINE.fullmatch(line)
            assert pair is not None, line
            found[entity][pair[1]] = pair[2]
    return found


def plain(configs: Texts) -> dict[str, str]:
    return {key: text for key, (text, _) in configs.items()}


def alter(broker: Broker, kind: str, *arguments: str) -> None:
    broker.kafka_configs("--entity-type", kind, "--alter", *arguments)


def topics(broker: Broker, *arguments: str) -> None:
    broker._tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap, *arguments
    )


def wait_for_snapshot(directory: Path, *, above: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not [end for end, _ in list_snapshots(LocalStorage(), str(directory)) if end > above]:
        assert time.monotonic() < deadline, "no snapshot was made"
        time.sleep(0.05)


def test_settings_equal_those_of_kafka_configs(tmp_path: Path) -> None:
    log_dir = tmp_path / "log-dir"
    directory = log_dir / "__cluster_metadata-0"
    with Broker(log_dir, home=tmp_path / "home", settings=SMALL_SNAPSHOTS) as broker:
        broker.produce(seed=1, scale=0.01, topics="c-(none|tomb|4p)")
        topics(broker, "--create", "--topic", "bare", "--partitions", "3")
        topics(broker, "--delete", "--topic", "c-tomb")
        topics(broker, "--delete", "--topic", "c-none")
        topics(broker, "--create", "--topic", "c-none", "--config", "retention.ms=77")
        alter(
            broker,
            "brokers",
            "--entity-default",
            "--add-config",
            "log.retention.ms=1000000,log.cleaner.threads=2",
        )
        alter(
            broker,
            "brokers",
            "--entity-name",
            "1",
            "--add-config",
            "log.retention.ms=2000000,log.segment.bytes=3000000",
        )
        wait_for_snapshot(directory, above=0)
        last = max(end for end, _ in list_snapshots(LocalStorage(), str(directory)))
        alter(broker, "brokers", "--entity-name", "1", "--delete-config", "log.segment.bytes")
        alter(
            broker,
            "topics",
            "--entity-name",
            "c-4p",
            "--add-config",
            "cleanup.policy=[compact,delete],segment.ms=9",
        )
        alter(broker, "topics", "--entity-name", "c-4p", "--delete-config", "segment.ms")
        wait_for_snapshot(directory, above=last)
        expected = described(broker.kafka_configs("--entity-type", "topics", "--describe"))
        all_brokers = described(
            broker.kafka_configs("--entity-type", "brokers", "--entity-default", "--describe")
        )
        one_broker = described(
            broker.kafka_configs("--entity-type", "brokers", "--entity-name", "1", "--describe")
        )
    metadata = read_cluster_metadata(LocalStorage(), str(directory))
    assert {
        f"topic {name}": plain(metadata.configs.get(("topic", name), {}))
        for name in metadata.topics
    } == expected
    assert expected["topic bare"] == {}
    assert expected["topic c-none"] == {"retention.ms": "77"}
    assert expected["topic c-4p"]["cleanup.policy"] == "compact,delete"
    assert {"brokers in the cluster": plain(metadata.configs.get(ALL_BROKERS, {}))} == all_brokers
    assert {
        f"broker {name}": plain(configs)
        for (kind, name), configs in metadata.configs.items()
        if kind == "broker"
    } == one_broker
    assert one_broker["broker 1"]["log.retention.ms"] == "2000000"
    directories = {
        f"{name}-{p}": t.topic_id for name, t in metadata.topics.items() for p in t.replicas
    }
    found = {
        d.name: read_topic_id(LocalStorage(), str(d))
        for d in log_dir.iterdir()
        if d.is_dir() and d.name != directory.name and not d.name.endswith("-delete")
    }
    assert found == directories
    assert metadata.notes == ()
    # It was read out of a snapshot and what follows it; the whole log alone tells the same.
    assert any(" snapshot " in where for _, where in metadata.configs["topic", "c-none"].values())
    for file in directory.glob("*.checkpoint"):
        file.unlink()
    whole = read_cluster_metadata(LocalStorage(), str(directory))
    assert {section: plain(configs) for section, configs in whole.configs.items()} == {
        section: plain(configs) for section, configs in metadata.configs.items()
    }
    assert (whole.topics, whole.end_offset) == (metadata.topics, metadata.end_offset)


DEFAULT = ("--entity-default",)
NOT_ALL_DYNAMIC = {
    "log.retention.hours": "1",
    "log.retention.minutes": "2",
    "log.cleaner.enable": "false",
    "log.segment.bytes": "2000000",
}


def test_settings_that_a_broker_does_not_take_from_its_controller_are_ignored(
    tmp_path: Path,
) -> None:
    """A controller stores any setting of brokers. A broker ignores those that are not dynamic."""
    log_dir, home = tmp_path / "log-dir", tmp_path / "home"
    with Broker(log_dir, home=home) as broker:
        topics(broker, "--create", "--topic", "t")
        broker._tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-controller", f"127.0.0.1:{broker._controller_port}"),
            *("--entity-type", "brokers", "--entity-name", "1", "--alter", "--add-config"),
            ",".join(f"{key}={value}" for key, value in NOT_ALL_DYNAMIC.items()),
        )
        broker.wait_until_logged(
            "Non-dynamic configs will be ignored", timeout_seconds=WAIT_SECONDS
        )
        asked = ("--entity-type", "topics", "--entity-name", "t", "--describe", "--all")
        deadline = time.monotonic() + WAIT_SECONDS
        while "segment.bytes=2000000 " not in (used := broker.kafka_configs(*asked)):
            assert time.monotonic() < deadline, used
    storage = LocalStorage()
    stored = read_cluster_metadata(storage, str(log_dir / "__cluster_metadata-0"))
    assert plain(stored.configs["broker", "1"]) == NOT_ALL_DYNAMIC
    server = parse_server_properties((home / "server.properties").read_text())
    given = Settings(server_properties=server)
    settings, notes = with_metadata(given, storage, survey_log_dirs(storage, [str(log_dir)]))
    config = settings.resolve("t", node_id=1)
    assert isinstance(config, TopicConfig)
    for name, value in (
        ("retention.ms", config.retention_ms),
        ("segment.bytes", config.segment_bytes),
        ("cleanup.policy", config.cleanup_policy),
    ):
        assert f"  {name}={value} " in used
    assert config.log_cleaner_enable
    assert len([note for note in settings.notes() if NOT_DYNAMIC in note]) == 3
    assert notes == ()


def test_settings_that_were_removed_after_a_broker_stopped_are_not_guessed(tmp_path: Path) -> None:
    """Its metadata log ends where it stopped; `kafka-configs` asks those that go on. With `--all`
    it prints every setting. Otherwise its file could as well be older than the log.
    """
    log_dir, home, old = tmp_path / "log-dir", tmp_path / "home", tmp_path / "old"
    entities = (("topics", "t"), ("brokers", "1"), ("brokers", ""))
    asked = {
        (kind, name): ("--entity-type", kind, *(("--entity-name", name) if name else DEFAULT))
        for kind, name in entities
    }
    settings = ("retention.ms", "log.retention.bytes", "log.cleanup.policy")
    values = ("3600000", "1000000", "compact")
    broker = Broker(log_dir, home=home)
    with broker:
        broker.create_topic("t")
        for entity, name, value in zip(asked.values(), settings, values, strict=True):
            broker.kafka_configs(*entity, "--alter", "--add-config", f"{name}={value}")
    shutil.copytree(log_dir, old)
    with broker:
        for entity, name in zip(asked.values(), settings, strict=True):
            broker.kafka_configs(*entity, "--alter", "--delete-config", name)
        described = [broker.kafka_configs(*entity, "--describe") for entity in asked.values()]
        used = broker.kafka_configs(*asked["topics", "t"], "--describe", "--all")
    storage = LocalStorage()
    # Without log.dirs, which would lead to the log of today.
    lines = (home / "server.properties").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("log.dirs="))
    server = parse_server_properties(text)

    def resolved(*texts: str) -> TopicConfig | Unknown:
        configs = parse_topic_configs("\n".join(texts))
        given = Settings(server_properties=server, topic_configs=configs, allow_other_broker=True)
        stale, _ = with_metadata(given, storage, survey_log_dirs(storage, [str(old)]))
        return stale.resolve("t", node_id=1)

    config = resolved(used)
    assert isinstance(config, TopicConfig)
    for name in ("retention.ms", "retention.bytes", "cleanup.policy"):
        assert f"  {name}={getattr(config, name.replace('.', '_'))} " in used
    for section, key in zip(described, settings, strict=True):
        doubt = resolved(section)
        assert isinstance(doubt, Unknown), section
        assert doubt.reason.startswith(f"{key} of ")
    alone, _ = with_metadata(
        Settings(server_properties=server, allow_other_broker=True),
        storage,
        survey_log_dirs(storage, [str(old)]),
    )
    config = alone.resolve("t", node_id=1)
    assert isinstance(config, TopicConfig)
    assert (config.retention_ms, config.retention_bytes, config.cleanup_policy) == (
        3_600_000,
        1_000_000,
        "compact",
    )


class OtherNode(Broker):
    """A node 2, alone in its cluster."""

    def _identity(self) -> dict[str, str]:
        found = super()._identity()
        voters = found["controller.quorum.voters"].replace("1@", "2@")
        return found | {"node.id": "2", "controller.quorum.voters": voters}


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_replica_that_a_broker_sets_aside_as_a_stray_is_foreign(
    version: str, tmp_path: Path
) -> None:
    """Node 2 gets the directory of node 1, and so partitions with replicas on node 1 only."""
    log_dir, home = tmp_path / "log-dir", tmp_path / "home"
    with Broker(log_dir, home=home, version=version) as broker:
        broker.create_topic("t")
    meta = log_dir / "meta.properties"
    lines = meta.read_text().replace("node.id=1", "node.id=2").splitlines(keepends=True)
    meta.write_text("".join(line for line in lines if not line.startswith("directory.id")))
    (log_dir / "__cluster_metadata-0" / "quorum-state").unlink()
    storage = LocalStorage()
    settings, _ = with_metadata(Settings(), storage, survey_log_dirs(storage, [str(log_dir)]))
    assert settings.metadata is not None
    topic_id = read_topic_id(storage, str(log_dir / "t-0"))
    assert settings.metadata.why_foreign("t", 0, topic_id, node_id=1) is None
    why = settings.metadata.why_foreign("t", 0, topic_id, node_id=2) or ""
    assert "its replicas are on node 1 " in why
    other = OtherNode(log_dir, home=home, version=version)
    other.launch()
    try:
        other.wait_until_logged(r"t-0\.\w+-stray", timeout_seconds=60)
    finally:
        other.kill()
    assert [path.name.partition(".")[0] for path in log_dir.glob("*-stray")] == ["t-0"]
