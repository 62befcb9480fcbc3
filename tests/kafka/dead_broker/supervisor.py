"""A supervisor that starts a dead broker again and again, and what each start does to the log
directory.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.disks import free_bytes
from tests.kafka.judge.broker import START_SECONDS, STARTED, Broker, BrokerFailedError

METADATA = "__cluster_metadata-0"
STRAY = "-stray"
IN_SERVICE_SECONDS = 10
"""A broker that lives so long after its start is in service: its supervisor is content."""
TELLING = re.compile(
    r"Deleting the corrupt segment|Found invalid offset|-stray|stray|Deleting all segments"
    r"|No space left|unsafe memory access|FATAL|Fatal error|Stopping serving logs|Halting"
    r"|truncat|Truncat|Found a corrupted index|recovering segment|Shutdown broker because"
    r"|Exiting Kafka|Cannot allocate|InternalError|Error starting LogManager|failed due to"
)
"""Lines of a broker's log that say what a full disk did to it."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a log directory. Sizes in bytes."""

    logs: dict[str, int]
    """Bytes in segments, by partition's directory."""
    files: dict[str, int]
    """Sizes of all files, by relative path."""

    @property
    def metadata(self) -> int:
        return self.logs.get(METADATA, 0)

    @property
    def strays(self) -> list[str]:
        return sorted(name for name in self.logs if name.endswith(STRAY))


def contents(log_dir: Path) -> Contents:
    files = {
        str(path.relative_to(log_dir)): path.stat().st_size
        for path in sorted(log_dir.rglob("*"))
        if path.is_file()
    }
    logs = {path.name: 0 for path in log_dir.iterdir() if path.is_dir()}
    for name, size in files.items():
        directory, _, file = name.rpartition("/")
        if file.endswith(".log"):
            logs[directory] += size
    return Contents(logs, files)


@dataclass(frozen=True, slots=True)
class Start:
    """One start on the full disk."""

    exit_code: int | None
    """None: it was in service."""
    before: Contents
    after: Contents
    free_bytes: int
    free_files: int
    said: Sequence[str]
    """The telling lines of its log."""

    @property
    def emptied(self) -> list[str]:
        """The partitions whose segments had bytes before, and have none now."""
        return sorted(
            name
            for name, size in self.before.logs.items()
            if size and not self.after.logs.get(name)
        )

    @property
    def removed(self) -> list[str]:
        return sorted(self.before.files.keys() - self.after.files.keys())

    @property
    def new(self) -> list[str]:
        return sorted(self.after.files.keys() - self.before.files.keys())


def restart(broker: Broker, log_dir: Path, *, times: int) -> list[Start]:
    """Start the broker again each time it has died, as a supervisor does, at most `times`.

    A broker that stays in service is stopped by SIGTERM, as a person would stop it.
    """
    starts: list[Start] = []
    while len(starts) < times and (not starts or starts[-1].exit_code is not None):
        before = contents(log_dir)
        broker.launch()
        code = _fate(broker)
        room = os.statvfs(log_dir)
        said = [line for line in broker.log.splitlines() if TELLING.search(line)]
        (broker.home / f"start-{len(starts) + 1}.log").write_text(broker.log)
        starts.append(
            Start(code, before, contents(log_dir), free_bytes(log_dir), room.f_favail, said)
        )
    return starts


def _fate(broker: Broker) -> int | None:
    """Return the exit code of a broker that dies, None for one in service. It is stopped."""
    until = time.monotonic() + START_SECONDS
    in_service = False
    while time.monotonic() < until:
        code = broker.poll()
        if code is not None:
            return code
        if not in_service and STARTED in broker.log:
            in_service, until = True, time.monotonic() + IN_SERVICE_SECONDS
        time.sleep(0.05)
    if not in_service:
        broker.kill()
        raise BrokerFailedError(
            f"the broker neither started nor stopped within {START_SECONDS} s\n{broker.log[-4000:]}"
        )
    broker.stop()
    return None
