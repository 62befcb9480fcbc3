"""Whether a broker uses the metadata log beside it, through a real migration from ZooKeeper to
KRaft, and after it was taken back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kafka.judge import broker as brokers
from tests.kafka.judge.broker import Broker, free_ports
from tests.kafka.versions.zookeeper import ZooKeeperBroker
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties_file
from winnow.policy.sources import Settings
from winnow.storage.places import Places

VERSION = "3.9.2"
"""The last one with ZooKeeper."""
MIGRATES = {"zookeeper.metadata.migration.enable": "true"}
SECONDS = 90


class Controller(Broker):
    """A node that is only a controller."""

    def __init__(self, place: Path, *, port: int, settings: Mapping[str, str]) -> None:
        super().__init__(place / "log", home=place / "home", version=VERSION, settings=settings)
        self._quorum = f"3000@127.0.0.1:{port}"
        self._port = port

    def _identity(self) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": "3000",
            "controller.quorum.voters": self._quorum,
            "listeners": f"CONTROLLER://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_dir),
        }


class Migrating(ZooKeeperBroker):
    """A broker that starts with ZooKeeper or, if `kraft`, without it."""

    kraft = False

    def launch(self) -> None:
        if self._zookeeper is None:
            super().launch()
        else:
            Broker.launch(self)

    def start(self) -> Migrating:
        self._started = "Kafka Server started" if self.kraft else "[KafkaServer id=1] started"
        return super().start()

    def _identity(self) -> dict[str, str]:
        if not self.kraft:
            return super()._identity()
        return {
            "process.roles": "broker",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.log_dir),
        }


def used(broker: Broker, *, with_file: bool = False) -> bool:
    """Return whether Winnow takes topics from the metadata log beside the broker."""
    files = []
    if with_file:
        data = (broker.home / "server.properties").read_bytes()
        files.append(parse_server_properties_file(data, file="server.properties"))
    dirs = survey_log_dirs(Places(), [str(broker.log_dir)])
    settings, notes = with_metadata(Settings(server_properties=files), Places(), dirs)
    assert (broker.log_dir / METADATA_DIR).is_dir()
    if settings.metadata is None:
        assert any("left of a migration to KRaft" in note for note in notes)
        return False
    assert settings.metadata.problem is None
    return "t" in settings.metadata.topics


@pytest.mark.slow
def test_metadata_log_counts_once_the_broker_can_not_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [port] = free_ports(1)
    follows = {
        "controller.quorum.voters": f"3000@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    broker = Migrating(tmp_path / "broker" / "log", home=tmp_path / "broker" / "h", version=VERSION)
    controller: Controller | None = None
    try:
        broker.start()
        broker.create_topic("t")
        broker.stop_alone()
        meta = broker.log_dir / "meta.properties"
        [cluster] = re.findall(r"(?m)^cluster\.id=(.*)", meta.read_text())
        monkeypatch.setattr(brokers, "CLUSTER_ID", cluster)
        both = {**MIGRATES, "zookeeper.connect": broker.zookeeper}
        controller = Controller(tmp_path / "controller", port=port, settings=both)
        controller.start()

        broker.settings = {**MIGRATES, **follows}
        broker.start()
        controller.wait_until_logged("Completed migration of metadata", timeout_seconds=SECONDS)
        broker.stop_alone()
        assert not used(broker)
        assert not used(broker, with_file=True)

        broker.settings = {}  # back to ZooKeeper
        broker.start()
        broker.stop_alone()
        assert not used(broker)
        assert not used(broker, with_file=True)

        broker.kraft, broker.settings = True, follows
        broker.start()
        broker.stop_alone()
        assert not used(broker)  # it could still go back, and only its file shows that it does not
        assert used(broker, with_file=True)

        controller.stop()
        controller.settings = {}  # the migration is finished
        controller.start()
        broker.start()
        broker.create_topic("u")
        broker.stop_alone()
        controller.stop()
        assert used(broker)
        assert "version=0" in meta.read_text()
    finally:
        broker.kill()
        if controller is not None:
            controller.kill()


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.2", marks=pytest.mark.slow)])
def test_broker_with_kraft_keeps_version_0_of_meta_properties(tmp_path: Path, version: str) -> None:
    log_dir = tmp_path / "log"
    with Broker(log_dir, home=tmp_path / "home", version=version) as broker:
        broker.create_topic("t")
    meta = log_dir / "meta.properties"
    old = meta.read_text().replace("version=1", "version=0").replace("node.id", "broker.id")
    meta.write_text(old)
    with Broker(log_dir, home=tmp_path / "home", version=version) as broker:
        pass
    assert meta.read_text() == old
    assert used(broker) is (version == "4.3.1")
    assert used(broker, with_file=True)
