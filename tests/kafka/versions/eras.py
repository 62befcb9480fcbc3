"""The versions of Kafka that are judged by their real brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.kafka.judge.broker import Broker, segment_key
from tests.kafka.versions.zookeeper import ZooKeeperBroker

OLD_FORMATS = {"inter.broker.protocol.version": "2.8"}
"""From 3.0 on, a broker writes old message formats only if it speaks to brokers of 2.8."""


@dataclass(frozen=True, slots=True)
class Era:
    """A release, and how its broker runs."""

    release: str
    zookeeper: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.release}-zookeeper" if self.zookeeper else self.release

    @property
    def title(self) -> str:
        return f"{self.release}, ZooKeeper" if self.zookeeper else self.release

    @property
    def names(self) -> set[str]:
        """As the command takes it."""
        return {self.name, self.release, self.release.rpartition(".")[0]}

    @property
    def version(self) -> str:
        """As `--kafka-version` takes it."""
        return self.release

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(map(int, self.release.split(".")))

    @property
    def old_formats(self) -> bool:
        """Whether it writes message formats v0 and v1."""
        return self.zookeeper

    @property
    def segment_key(self) -> str:
        """The setting of a topic that makes small segments."""
        return segment_key(self.release)

    @property
    def waits_for_retention(self) -> bool:
        """Whether its first look at retention comes only 30 s after the start."""
        return self.numbers < (3, 6)

    def broker(self, log_dir: Path, home: Path, settings: Mapping[str, str]) -> Broker:
        kind = ZooKeeperBroker if self.zookeeper else Broker
        settings = {**settings, **self.settings}
        return kind(log_dir, home=home, settings=settings, version=self.release)


ERAS = (
    Era("2.8.2", zookeeper=True),
    Era("3.0.2", zookeeper=True, settings=OLD_FORMATS),
    Era("3.4.1"),
    Era("3.6.2"),
    Era("3.7.2"),
    Era("3.8.1"),
    Era("3.9.2"),
    Era("3.9.2", zookeeper=True, settings=OLD_FORMATS),
    Era("4.0.2"),
    Era("4.1.2"),
    Era("4.2.2"),
    Era("4.3.1"),
    Era("4.4.0"),
)
