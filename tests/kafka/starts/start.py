"""Start a real broker on a state and see what becomes of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.judge.broker import Broker
from tests.kafka.starts.bases import broker_on, copy_base
from tests.kafka.starts.changes import apply
from tests.kafka.starts.fate import OFFLINE, Fate, Files, disturbed, fate_of, listing, settled
from tests.kafka.starts.table import State

WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
"""Root is let by modes and owners as any other user is."""
PATIENCE = 75
SETTLES_SECONDS = 8
TRIES = 3
ENDS = "Shutdown broker because"
"""It takes up to `log.dir.failure.timeout.ms` until it has ended."""


def make(state: State, root: Path) -> None:
    copy_base(state.version, state.kind, root)
    for change in state.changes:
        apply(root, change)


@contextmanager
def made(state: State, scratch: Path) -> Iterator[Path]:
    """The directory of a state, and its end."""
    root = scratch / "root"
    make(state, root)
    try:
        yield root
    finally:
        unlock(root)
        shutil.rmtree(scratch, ignore_errors=True)


def unlock(root: Path) -> None:
    for directory, names, _ in os.walk(root):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                path.chmod(0o755)


@dataclass(frozen=True, slots=True)
class Start:
    """What is left of a start: all that its fate is read from."""

    before: Files
    after: Files
    log: str
    code: int | None

    @property
    def fate(self) -> Fate:
        return fate_of(self.before, self.after, self.log, self.code)


def start(state: State, scratch: Path) -> Start:
    """Start a broker on the state, until it is known what becomes of it."""
    for _ in range(TRIES):
        found = _start(state, scratch)
        if not disturbed(found.log):
            break
        scratch.mkdir(exist_ok=True)
    return found


def _start(state: State, scratch: Path) -> Start:
    with made(state, scratch) as root:
        before = listing(root)
        broker = broker_on(state.version, root, scratch / "home")
        broker.formats = False
        broker.prefix = WITHOUT_RIGHTS if os.geteuid() == 0 else ()
        try:
            broker.launch()
            code = _wait(broker)
        finally:
            broker.kill()
        unlock(root)
        log = broker.log.replace(f"{root}/", "").replace(str(root), "")
        return Start(before, listing(root), log, code)


def _wait(broker: Broker) -> int | None:
    """The exit code, or None of a broker that lives."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        code = broker.exit_code
        if code is not None:
            return code
        if broker.started:
            break
        time.sleep(0.1)
    deadline, log = time.monotonic() + SETTLES_SECONDS, ""
    while time.monotonic() < deadline + (PATIENCE if ENDS in log else 0):
        log = broker.log
        if (code := broker.exit_code) is not None:
            return code
        if settled(log) and not OFFLINE.search(log):
            time.sleep(0.3)
            break
        time.sleep(0.1)
    return broker.exit_code
