"""Brokers that fill their disk until they die."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.disks import FEW_INODES, LEAST_MIB, MIB, free_bytes, small_disk, take_all_but
from tests.kafka.dead_broker.load import Acks, Load, read_acks
from tests.kafka.judge.broker import START_SECONDS, STARTED, Broker, BrokerFailedError
from tests.kafka.judge.jars import KAFKA_VERSION
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.lock import holder_of
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.storage.places import Places

MARKERS_SECONDS = 120
UNLOCK_SECONDS = 30

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
FILL_SECONDS = 120
SEGMENT = f"segment.bytes={MIB} segment.index.bytes=65536"
EXPIRES = f"{SEGMENT} cleanup.policy=delete retention.ms={WEEK_MS}"
COMPACTED = f"{SEGMENT} cleanup.policy=compact min.cleanable.dirty.ratio=0.1"

IN_SERVICE = {
    # A few MiB are enough with the smallest segments that Kafka allows.
    "log.segment.bytes": str(MIB),
    "transaction.state.log.segment.bytes": str(MIB),
    # A disk fills because these come too late.
    "log.cleaner.backoff.ms": "86400000",
    # It is 5 s by default, which is longer than this broker lives.
    "replica.high.watermark.checkpoint.interval.ms": "300",
}
FRESH = {
    "log.initial.task.delay.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "300",
}
"""With it, recovery points are at most a moment old. Without it there is none: the default is 60 s.
"""
RECOVERS = r"Recovering unflushed segment [1-9]\d*\. .* recovered for d-old-"
FULL = "Stopping serving logs in dir"
NO_MARKER = (
    r"Couldn't find leader endpoint for partitions Set\((.*?)\) while trying to send transaction "
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A broker and its load. `topics` are lines as Load.java has them."""

    topics: Sequence[str]
    fresh: bool = False
    two_log_dirs: bool = False
    """The second one is full; the first, with the metadata log, lies on another disk."""
    reserve_mib: int = 0
    """Kept in a file beside the log directory, and given free when the broker is dead."""
    mib: int = 40
    """Free in a new file system."""
    kind: str = "tmpfs"
    """As `small_disk` has it."""
    inodes: int = 512
    """Of an ext4. They, not its bytes, run out where they are few and `mib` is large."""
    version: str = KAFKA_VERSION


EXPIRING = f"d-old partitions=2 old_bytes={20 * MIB} {EXPIRES}"
USERS = f"c-users partitions=2 keys=500 {COMPACTED}"
TRANSACTIONS = (
    f"t-compacted keys=300 txn=100 open=1 {COMPACTED}",
    f"t-expiring txn=100 open=1 codec=lz4 old_bytes={4 * MIB} {EXPIRES}",
)


@dataclass(frozen=True, slots=True)
class Dead:
    """A broker that died of a full disk; its log directories are as it left them."""

    broker: Broker
    log_dirs: Sequence[Path]
    topics: Path
    acks: Acks
    died_ms: int
    notes: Sequence[str]
    """What Winnow noted while the process lived, if it outlived its log directory."""

    def policy(self, partition: str) -> str:
        """Return the cleanup policy of a partition's topic."""
        topic = partition.rpartition("-")[0]
        lines = (line.split() for line in self.topics.read_text().splitlines())
        settings = next(words[1:] for words in lines if words[0] == topic)
        return next(w.partition("=")[2] for w in settings if w.startswith("cleanup.policy="))


@contextmanager
def filled(variant: Variant, home: Path, load: Load, *, seed: int = 1) -> Iterator[Dead]:
    """Fill a broker's disk until the broker is dead. The disk is gone at the end."""
    with small_disk(
        home / "disk", mib=variant.mib, kind=variant.kind, inodes=variant.inodes
    ) as disk:
        if variant.kind in LEAST_MIB:
            take_all_but(disk, mib=variant.mib)
        log_dirs = [disk / "kafka"]
        if variant.two_log_dirs:
            log_dirs.insert(0, home / "other" / "kafka")
        settings = IN_SERVICE | {"log.dirs": ",".join(map(str, log_dirs))}
        if variant.fresh:
            settings |= FRESH
        reserve = disk / "reserve"
        if variant.reserve_mib:
            reserve.write_bytes(bytes(variant.reserve_mib * MIB))
        broker = Broker(
            log_dirs[0], home=home / "broker", settings=settings, version=variant.version
        )
        topics = home / "topics"
        topics.write_text("".join(f"{line}\n" for line in variant.topics))
        try:
            halts = not variant.two_log_dirs
            _fill(broker, load, topics, home / "acks", seed=seed, halts=halts)
            notes = () if halts else _notes(broker, log_dirs[-1])
            broker.kill()
            room = os.statvfs(disk)
            # A page of an index, a block of a directory, on xfs a chunk of inodes: less than that
            # can't be had.
            assert free_bytes(disk) < 2**18 or (room.f_files and room.f_favail < FEW_INODES), room
            reserve.unlink(missing_ok=True)
            acks, died_ms = read_acks(home / "acks"), time.time_ns() // 10**6
            yield Dead(broker, log_dirs, topics, acks, died_ms, notes)
        finally:
            broker.kill()


def _fill(broker: Broker, load: Load, topics: Path, acks: Path, *, seed: int, halts: bool) -> None:
    broker.start()
    load.create(broker.bootstrap, topics)
    load.start_filling(broker.bootstrap, topics, acks, seed=seed)
    try:
        if halts:
            broker.wait_until_dead(timeout_seconds=FILL_SECONDS)
            return
        broker.wait_until_logged(FULL, timeout_seconds=FILL_SECONDS)
    finally:
        load.stop_filling()


def _notes(broker: Broker, dropped: Path) -> tuple[str, ...]:
    """Return the notes on a log directory that a running broker has dropped."""
    until = time.monotonic() + UNLOCK_SECONDS
    while holder_of(str(dropped)) is not None:
        assert time.monotonic() < until, "the broker holds the lock of a directory it has dropped"
        time.sleep(0.1)
    text = "".join(f"{key}={value}\n" for key, value in broker.properties.items())
    settings = Settings(server_properties=parse_server_properties(text))
    return with_metadata(settings, Places(), survey_log_dirs(Places(), [str(dropped)]))[1]


def kill_in_recovery(dead: Dead) -> None:
    """Start the broker, as its supervisor does, and kill it when it recovers a second segment
    of `d-old`."""
    dead.broker.launch()
    dead.broker.wait_until_logged(RECOVERS, timeout_seconds=START_SECONDS)
    dead.broker.kill()
    if STARTED in dead.broker.log:
        raise BrokerFailedError("the broker had recovered all before it was killed")


def missing(dead: Dead, load: Load, scratch: Path) -> list[str]:
    """Start the broker as it was configured, and return what its consumers should get and do not.

    The broker runs on.
    """
    broker = dead.broker.start()
    load.finish_transactions(broker.bootstrap, dead.topics)
    dead = replace(dead, acks=dead.acks.without_last_marker(_without_marker(broker.log)))
    problems = _missing(dead, load, broker.bootstrap, scratch, committed_only=False)
    # A coordinator acknowledges a commit before it writes the markers, and writes what is missing
    # of them after it has started.
    until = time.monotonic() + MARKERS_SECONDS
    while True:
        hidden = _missing(dead, load, broker.bootstrap, scratch, committed_only=True)
        if not hidden or time.monotonic() > until:
            return problems + hidden
        time.sleep(1)


def _without_marker(log: str) -> set[str]:
    """Return the partitions that lack a marker for ever.

    Kafka 4.3.1 does that: if the coordinator loads its transactions before it knows that its own
    broker is back, it takes their partitions for deleted and ends the transactions without.
    """
    return {name for names in re.findall(NO_MARKER, log) for name in names.split(", ")}


def _missing(
    dead: Dead, load: Load, bootstrap: str, scratch: Path, *, committed_only: bool
) -> list[str]:
    problems = []
    isolation = "read_committed" if committed_only else "read_uncommitted"
    found = load.read(bootstrap, isolation, scratch / isolation)
    problems += [f"{name} is not there" for name in dead.acks.records if name not in found]
    for name, one in found.items():
        if not committed_only and dead.acks.aborted[name] and "compact" in dead.policy(name):
            # A compaction takes what was aborted; of the rest nothing is decided.
            undecided = dead.acks.undecided[name] - one.records.keys()
            problems += [f"{name}: {n} was undecided and is gone" for n in sorted(undecided)]
            continue
        problems += dead.acks.problems(
            name,
            one,
            policy=dead.policy(name),
            kept_from=dead.died_ms - WEEK_MS,
            committed_only=committed_only,
        )
    return [f"{isolation}: {problem}" for problem in problems]
