"""A real broker with ZooKeeper, of a version that has it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kafka.judge.broker import Broker, BrokerFailedError, free_ports
from tests.kafka.judge.jars import quick_java

WAIT_SECONDS = 60
ZOOKEEPER_FLAGS = (
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.4lw.commands.whitelist=dump",
)


class ZooKeeperBroker(Broker):
    """As `Broker`. What ZooKeeper knows lies beside the log directory: a copy needs both."""

    _started = "[KafkaServer id=1] started"
    zookeeper_flags: Sequence[str] = ()
    zookeeper_tick: Sequence[str] = ()
    """Its ticks in ms: the sessions of brokers are given up after two at least."""

    def __init__(
        self,
        log_dir: Path,
        *,
        home: Path,
        settings: Mapping[str, str] | None = None,
        version: str,
    ) -> None:
        super().__init__(log_dir, home=home, settings=settings, version=version)
        [self._zookeeper_port] = free_ports(1)
        self._zookeeper: subprocess.Popen[bytes] | None = None

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self._zookeeper_port}"

    def configs_in_zookeeper(self, *arguments: str) -> str:
        """What `kafka-configs --zookeeper` prints: of topics up to 2.8, of brokers that are down up
        to 3.9.
        """
        command = ("kafka.admin.ConfigCommand", "--zookeeper", self.zookeeper, *arguments)
        return self._tool(*command, version=self._version)

    def launch(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        flags = ["-Xmx128m", *ZOOKEEPER_FLAGS, *self.zookeeper_flags]
        with (self.home / "zookeeper.log").open("wb") as output:
            self._zookeeper = subprocess.Popen(
                [
                    *quick_java(*flags, version=self._version),
                    "org.apache.zookeeper.server.ZooKeeperServerMain",
                    str(self._zookeeper_port),
                    str(self.log_dir.with_name("zookeeper")),
                    *self.zookeeper_tick,
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.home,
            )
        deadline = time.monotonic() + WAIT_SECONDS
        # A broker that was killed is registered until its session ends, and its successor stops.
        while _has_brokers(self._zookeeper_port):
            if time.monotonic() > deadline or self._zookeeper.poll() is not None:
                self._end_zookeeper()
                said = (self.home / "zookeeper.log").read_text(errors="replace")
                raise BrokerFailedError(f"ZooKeeper did not start\n{said[-4000:]}")
            time.sleep(0.1)
        super().launch()

    def stop_alone(self) -> None:
        """A clean shutdown of the broker. ZooKeeper goes on."""
        super().stop()

    def kill_alone(self) -> None:
        """A crash of the broker. ZooKeeper goes on."""
        super().kill()

    def stop(self, *, timeout_seconds: float = 60) -> None:
        try:
            super().stop(timeout_seconds=timeout_seconds)
        finally:
            self._end_zookeeper()

    def kill(self) -> None:
        super().kill()
        self._end_zookeeper()

    def _end_zookeeper(self) -> None:
        process, self._zookeeper = self._zookeeper, None
        if process is not None:
            process.kill()
            process.wait()

    def _format(self, properties: Path) -> None:
        """The broker does it when it starts."""

    def _identity(self) -> dict[str, str]:
        return {
            "broker.id": "1",
            "zookeeper.connect": self.zookeeper,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.log_dir),
        }


def _has_brokers(port: int) -> bool:
    """Whether a broker is registered, or ZooKeeper does not answer yet."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"dump")
            answer = connection.makefile("rb").read()
    except OSError:
        return True
    return b"ephemerals" not in answer.lower() or b"/brokers/ids/" in answer
