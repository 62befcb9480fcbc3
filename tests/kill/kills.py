"""One kill: when, what, and what must be true afterwards."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from tests.kill import log
from tests.kill.processes import Run
from tests.spark.runs import NOW
from winnow.logdir.names import CLEANED, DELETED, STAGING_PREFIX, SWAP

Victim = Literal["group", "driver", "jvm", "worker", "executor"]
Stage = Literal["start", "staging", "commit"]

RUN_SECONDS = 300
VICTIMS: tuple[Victim, ...] = (
    *("group", "jvm", "driver", "worker", "group", "driver", "jvm", "executor"),
    *("group", "jvm", "driver", "worker", "group", "driver", "jvm", "worker"),
)
CLUSTER = "local-cluster[2,1,1024]"
SURVIVED = ("worker", "executor")
"""Spark does their work again: the run itself must succeed."""


@dataclass(frozen=True, slots=True)
class Kill:
    victim: Victim
    stage: Stage
    """What is waited for."""
    after: float
    """Seconds from then on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    killed: bool
    """False: the run was over, or there was no such process."""
    state: str
    """What the kill left."""
    alive_s: float
    """How long anything of the run lived on."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of an undisturbed run, in seconds: until it stages, from then to its first commit, from then
    to its last.
    """

    start: float
    staging: float
    commit: float

    def of(self, stage: Stage) -> float:
        return {"start": self.start, "staging": self.staging, "commit": self.commit}[stage]


@dataclass(frozen=True, slots=True)
class Field:
    """Where kills take place."""

    source: Path
    """Never touched."""
    undisturbed: Path
    """What a run makes of `source`."""
    arguments: Callable[[Path], list[str]]
    """Of `./spark-submit.sh`, for a log directory."""
    again: Callable[[Path], None]
    """The next run over a log directory; raises AssertionError unless it does all there is to do.
    """
    may_lack: tuple[str, ...] = ()
    """Suffixes of files that may be missing after a kill and the next run."""

    @property
    def scratch(self) -> Path:
        return self.source.parent


def choose(rng: random.Random, number: int, lengths: Lengths) -> Kill:
    """Victims take turns. Half of the moments are in the commits, the shortest part of a run."""
    victim: Victim = VICTIMS[number % len(VICTIMS)]
    if victim in SURVIVED:
        # From the first task on: before, there is none of them, and commits are none of their
        # business.
        stage: Stage = rng.choice(("start", "staging"))
        return Kill(
            victim,
            stage,
            rng.uniform(0.5, 1) * lengths.start
            if stage == "start"
            else rng.random() * lengths.staging,
        )
    stage = rng.choices(("start", "staging", "commit"), (1, 1, 2))[0]
    return Kill(victim, stage, rng.random() * lengths.of(stage))


def measure(field: Field) -> Lengths:
    """An undisturbed run. Its result must be `field.undisturbed`."""
    log_dir = fresh(field)
    with (field.scratch / "output").open("wb") as output:
        run = Run(field.arguments(log_dir), output=output)
        moments = [wait_for(run, log_dir, stage) - run.started for stage in ("staging", "commit")]
        while has_begun(log_dir, "staging"):
            time.sleep(0.002)
        end = time.monotonic() - run.started
        code = run.wait(timeout_seconds=RUN_SECONDS)
    assert code == 0, told(field)
    log.assert_same(log_dir, field.undisturbed)
    return Lengths(moments[0], moments[1] - moments[0], end - moments[1])


def fresh(field: Field) -> Path:
    log_dir = field.scratch / "log-dir"
    shutil.rmtree(log_dir, ignore_errors=True)
    copy_tree(field.source, log_dir)
    return log_dir


def told(field: Field) -> str:
    return (field.scratch / "output").read_text(errors="replace")[-3000:]


def carry_out(kill: Kill, field: Field, *, kafka: Kafka | None = None) -> Outcome:
    """Starts a run, kills, checks what is left and what the next run makes of it."""
    log_dir = fresh(field)
    master = ["--master", CLUSTER] if kill.victim == "executor" else []
    with (field.scratch / "output").open("wb") as output:
        run = Run([*field.arguments(log_dir), *master], output=output)
        try:
            wait_for(run, log_dir, kill.stage)
            time.sleep(kill.after)
            killed = strike(run, kill.victim)
            code = run.wait(timeout_seconds=RUN_SECONDS)
            if kill.victim in SURVIVED:
                assert code == 0, f"{kill}: the run ended with {code}\n{told(field)}"
            wait_for_lock(log_dir)
            seen = log.committed(log_dir)
            alive = run.wait_until_gone()
        finally:
            if run.processes():
                run.kill_all()
    assert log.committed(log_dir) == seen, (
        f"{kill}: something wrote to the log when the lock was free"
    )
    state = state_of(log_dir, field)
    if kill.victim in SURVIVED:
        log.assert_same(log_dir, field.undisturbed)
        return Outcome(killed, state, alive)
    if kafka is not None:
        ask_kafka(kafka, log_dir, field)
    field.again(log_dir)
    log.assert_same(log_dir, field.undisturbed, may_lack=field.may_lack)
    return Outcome(killed, state, alive)


def wait_for(run: Run, log_dir: Path, stage: Stage) -> float:
    """When the stage had begun, or the run had ended."""
    while stage != "start" and not run.ended and not has_begun(log_dir, stage):
        time.sleep(0.002)
    return time.monotonic()


def has_begun(log_dir: Path, stage: Stage) -> bool:
    directories = [entry.path for entry in os.scandir(log_dir) if entry.is_dir()]
    names = (name for directory in directories for name in os.listdir(directory))
    # Retention, which comes before anything is staged, leaves nothing that is .cleaned or .swap but
    # an empty segment.
    return any(
        name.startswith(STAGING_PREFIX) if stage == "staging" else name.endswith(SWAP)
        for name in names
    )


def strike(run: Run, victim: Victim) -> bool:
    if run.ended:
        return False
    if victim == "group":
        run.kill_all()
        return True
    if victim == "jvm":
        os.kill(run.pid, signal.SIGKILL)
        return True
    # Tasks come and go: wait for one, but not for ever.
    deadline = time.monotonic() + 60
    while not run.ended and time.monotonic() < deadline:
        found = {"driver": run.drivers, "executor": run.executors}.get(victim, run.workers)()
        for one in found[:1]:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return True
        time.sleep(0.01)
    return False


def wait_for_lock(log_dir: Path) -> None:
    """A driver whose JVM was killed finishes the commit it is at, and holds the lock for as
    long.
    """
    path = log_dir / ".lock"
    if not path.exists():
        return
    with path.open("r+b") as file:
        deadline = time.monotonic() + 30
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                assert time.monotonic() < deadline, "the lock is still held 30 s after the kill"
                time.sleep(0.01)
            else:
                return


def state_of(log_dir: Path, field: Field) -> str:
    names = [path.name for path in log_dir.rglob("*")]
    if any(name.endswith((CLEANED, SWAP, DELETED, ".tmp")) for name in names):
        return "inside a commit"
    now = log.committed(log_dir)
    staged = any(name.startswith(STAGING_PREFIX) for name in names)
    if now == log.committed(field.source):
        return "staged, nothing committed" if staged else "nothing changed"
    if now == log.committed(field.undisturbed):
        return "all committed"
    return "between commits"


def ask_kafka(kafka: Kafka, log_dir: Path, field: Field) -> None:
    """Kafka's loader loads each partition as the kill left it. All kept records are there, and the
    log end is unchanged.
    """
    for name in (*log.PARTITIONS, log.LEGACY):
        copy = field.scratch / name
        copy_tree(log_dir / name, copy)
        try:
            loaded, wanted = kafka.load(copy, now=NOW), kafka.dump(field.undisturbed / name)
        finally:
            shutil.rmtree(copy)
        assert loaded.error is None, f"{name}: {loaded.error}"
        kept = {line["o"] for line in wanted if line["t"] == "rec"}
        assert kept <= {line["o"] for line in loaded.records}, name
