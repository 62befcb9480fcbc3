"""A real Kafka broker on a given log directory, alone in its KRaft cluster, on loopback."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.judge.jars import HERE, KAFKA_VERSION, installation, quick_java

CLUSTER_ID = "V2lubm93T3JhY2xlMDAwMQ"
"""Any 16 bytes in base64url; the fixtures' meta.properties has this one."""
STARTED = "Kafka Server started"
LOGGING = HERE / "conf" / "log4j2-broker.properties"
START_SECONDS = 90
CONFIG_COMMANDS = {"4.4.0": "4.3.1"}
"""Whose `kafka-configs` asks a broker of another version: that of 4.4.0 is not on Maven Central."""
TOO_EARLY = re.compile(
    r"^\S+ ERROR ControllerApis - .* handling request "
    r"RequestHeader\(apiKey=CONTROLLER_REGISTRATION,.*\n"
    r"\S+CompletionException: \S+\.NotControllerException: ",
    re.MULTILINE,
)
"""The node registers as a controller before it has made itself the active one; it asks again some
ms later.
"""
TOO_SLOW = re.compile(r"^\S+ ERROR EventPerformanceMonitor - .*\n", re.MULTILINE)
"""The machine is busy."""

NEVER_CLEANS = {
    # Nothing is to be compacted or deleted behind our back: a ratio of 1 is never exceeded,
    # retention never looked at.
    "log.cleaner.min.cleanable.ratio": "1.0",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.retention.check.interval.ms": "86400000",
    "log.initial.task.delay.ms": "86400000",
    # The state of producers must outlive timestamps of long ago.
    "producer.id.expiration.ms": "2147483647",
}
SMALL = {
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    # Recorded transactions are long over time: they stay open, however long a test takes.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.io.threads": "4",
    "num.network.threads": "2",
}


class BrokerFailedError(AssertionError):
    """The broker, or a client of it, did not do what it should. The message ends with what it
    logged.
    """


def segment_key(version: str) -> str:
    """The setting of a topic that makes small segments on a broker of this version."""
    numbers = tuple(map(int, version.split(".")))
    return "segment.bytes" if numbers < (4, 1) else "internal.segment.bytes"


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a consumer got from one partition. `state` is a digest of the last value per key,
    tombstones left out.
    """

    begin: int
    end: int
    records: int
    keys: int
    state: str
    stuck_at: int | None


class Broker:
    """`with Broker(log_dir, home=tmp_path, settings={"log.cleaner.enable": "false"}) as broker:
    broker.consume()`.

    `log_dir` is formatted first if it is empty; it may be a copy from anywhere. `home` takes the
    configuration and the broker's own log. The broker never cleans or deletes by itself unless
    `settings` (server.properties) make it. `version`: one of those in `jars/`.
    """

    _started = STARTED
    prefix: Sequence[str] = ()
    """Words before the command that starts it, as those of `setpriv`."""
    formats = True
    """Whether an empty log directory is formatted first."""

    def __init__(
        self,
        log_dir: Path,
        *,
        home: Path,
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
        version: str = KAFKA_VERSION,
    ) -> None:
        self.log_dir = log_dir
        self.home = home
        self.settings = dict(settings or {})
        self._heap = heap
        self._version = version
        self._archive = installation(version).archive
        self._new_archive = self._archive.with_name(f"{os.getpid()}-{id(self)}.jsa")
        self._process: subprocess.Popen[bytes] | None = None
        self.port, self._controller_port = free_ports(2)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """That of a broker which ended by itself."""
        return None if self._process is None else self._process.poll()

    @property
    def started(self) -> bool:
        return self._started in self.log

    @property
    def log(self) -> str:
        """All that the broker logged since it was started last, at level INFO."""
        file = self.home / "broker.log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    @property
    def complaints(self) -> list[str]:
        """The lines of `log` at WARN and above, but those of a quick start or a busy machine."""
        return [
            line
            for line in TOO_SLOW.sub("", TOO_EARLY.sub("", self.log)).splitlines()
            if re.match(r"\S+ (WARN|ERROR|FATAL) ", line)
        ]

    def start(self) -> Self:
        self.launch()
        self.wait_until_started()
        return self

    def launch(self) -> None:
        """Start the process and return at once."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        properties = self.home / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        if self.formats and not (self.log_dir / "meta.properties").exists():
            self._format(properties)
        flags = [f"-Xms{self._heap}", f"-Xmx{self._heap}", f"-Dlog4j2.configurationFile={LOGGING}"]
        command = [
            *self.prefix,
            *quick_java(*flags, archive_at_exit=self._new_archive, version=self._version),
            "kafka.Kafka",
            str(properties),
        ]
        with (self.home / "broker.log").open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=self.home
            )

    def wait_until_logged(self, pattern: str, *, timeout_seconds: float) -> None:
        """Wait until the regular expression is found in the log of a running broker."""
        deadline = time.monotonic() + timeout_seconds
        while not re.search(pattern, self.log):
            if self._process is None or self._process.poll() is not None:
                raise BrokerFailedError(
                    f"the broker stopped and never logged {pattern!r}\n{self.log[-4000:]}"
                )
            if time.monotonic() > deadline:
                raise BrokerFailedError(
                    f"no {pattern!r} in the log after {timeout_seconds} s\n{self.log[-4000:]}"
                )
            time.sleep(0.01)

    def stop(self, *, timeout_seconds: float = 60) -> None:
        """A clean shutdown, as by SIGTERM."""
        self._end(signal.SIGTERM, timeout_seconds)
        if self._new_archive.exists():
            self._new_archive.replace(self._archive)

    def kill(self) -> None:
        """A crash."""
        self._end(signal.SIGKILL, 20)

    def wait_until_dead(self, *, timeout_seconds: float) -> int:
        """Wait for the process to end by itself; return its exit code."""
        if self._process is None:
            raise BrokerFailedError("the broker was never started")
        try:
            return self._process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailedError(
                f"the broker lived on for {timeout_seconds} s\n{self.log[-4000:]}"
            ) from None

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended, None while it lives."""
        if self._process is None:
            raise BrokerFailedError("the broker was never started")
        return self._process.poll()

    def consume(self, isolation: str = "read_committed") -> dict[str, Consumed]:
        """Every partition read from beginning to end, by `topic-partition`."""
        return dict(
            _consumed(line)
            for line in self._tool("Consume", self.bootstrap, isolation).splitlines()
        )

    def records(self, *, offsets: bool = False) -> list[str]:
        """Every record that consumers of both isolation levels get, a line each, see
        Records.java. They are consumers of the broker's version. `offsets`: those of each
        partition, too.
        """
        more = ["offsets"] if offsets else []
        return self._tool("Records", self.bootstrap, *more, version=self._version).splitlines()

    def seek(self, questions: Sequence[str]) -> list[str]:
        """A consumer's answers to lines `topic partition offset|timestamp value`, see
        Consume.java.
        """
        file = self.home / "questions"
        file.write_text("".join(f"{question}\n" for question in questions))
        return self._tool("Consume", self.bootstrap, "seek", str(file)).splitlines()

    def produce(
        self, what: str = "main", *, seed: int = 0, scale: float = 1.0, topics: str = ".*"
    ) -> None:
        """The topics of the fixtures (`main`), or more onto some of them (`more`), see
        Produce.java.

        Another `seed` makes other records; `scale` is the share of the records; `topics` a regular
        expression.
        """
        self._tool(
            "Produce",
            self.bootstrap,
            what,
            "--seed",
            str(seed),
            "--scale",
            str(scale),
            "--topics",
            topics,
            "--segment-key",
            segment_key(self._version),
        )

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Without settings of its own."""
        self._tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", self.bootstrap, "--create", "--topic", name),
            f"--partitions={partitions}",
        )

    def delete_topic(self, name: str) -> None:
        self._tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", self.bootstrap, "--delete", "--topic", name),
        )

    def move(self, topic: str, log_dir: str) -> None:
        """Begin to move the first partition of a topic to another log directory."""
        moved = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [log_dir]}
        file = self.home / f"move-{topic}.json"
        file.write_text(json.dumps({"version": 1, "partitions": [moved]}))
        self._tool(
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            *("--bootstrap-server", self.bootstrap, "--execute"),
            *("--reassignment-json-file", str(file)),
        )

    def topic_configs(self) -> str:
        """The topics' own settings, as lines `topic key=value`."""
        return self._tool("Produce", self.bootstrap, "configs")

    def kafka_configs(self, *arguments: str) -> str:
        """The output of Kafka's own `kafka-configs`, for example of `--entity-type topics
        --describe --all`.
        """
        return self._tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", self.bootstrap, *arguments),
            version=CONFIG_COMMANDS.get(self._version, self._version),
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()

    def _format(self, properties: Path) -> None:
        self._tool(
            "kafka.tools.StorageTool",
            *("format", "-t", CLUSTER_ID, "-c", str(properties)),
            version=self._version,
        )

    @property
    def properties(self) -> dict[str, str]:
        """Its server.properties. `settings` may change between two starts."""
        return self._identity() | SMALL | NEVER_CLEANS | self.settings

    def _identity(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_dir),
        }

    def wait_until_started(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.started:
            if self._process is None or self._process.poll() is not None:
                raise BrokerFailedError(f"the broker stopped while starting\n{self.log[-4000:]}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailedError(
                    f"the broker did not start within {START_SECONDS} s\n{self.log[-4000:]}"
                )
            time.sleep(0.1)

    def _end(self, sign: signal.Signals, timeout_seconds: float) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(sign)
        try:
            process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailedError(
                f"the broker did not stop within {timeout_seconds} s\n{self.log[-4000:]}"
            ) from None

    def _tool(self, *command: str, version: str = KAFKA_VERSION) -> str:
        """`version`: that of the class path; our own clients are only in that of KAFKA_VERSION."""
        full = [*quick_java("-Xmx512m", version=version), *command]
        done = subprocess.run(full, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            said = f"{done.stdout[-1500:]}{done.stderr[-3000:]}"
            raise BrokerFailedError(f"{shlex.join(command)} failed with {done.returncode}:\n{said}")
        return done.stdout


def _consumed(line: str) -> tuple[str, Consumed]:
    partition, *pairs = line.split()
    found = dict(pair.split("=", 1) for pair in pairs)
    stuck = found.get("stuck_at")
    return partition, Consumed(
        begin=int(found["begin"]),
        end=int(found["end"]),
        records=int(found["records"]),
        keys=int(found["keys"]),
        state=found["state"],
        stuck_at=None if stuck is None else int(stuck),
    )


def free_ports(count: int) -> list[int]:
    """All are held until all are known, so that no two are the same."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
