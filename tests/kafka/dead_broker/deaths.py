"""`python -m tests.kafka.dead_broker.deaths [--only TEXT] [--kafka-version V] [--record PAGE]`:
brokers that fill a disk and die, whose supervisor starts them again and again on the full disk.

Then the page about full disks is followed, word for word: a copy of the metadata log goes back if a
start has emptied the log; `doctor`, what it prints, a start; every acknowledged record is read.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.conftest import local_session
from tests.disks import last_inodes_taken
from tests.kafka.dead_broker.death_record import Row, add_to
from tests.kafka.dead_broker.full_disk import (
    EXPIRING,
    USERS,
    Dead,
    Variant,
    filled,
    missing,
)
from tests.kafka.dead_broker.load import Load
from tests.kafka.dead_broker.sre import (
    COMMAND,
    DONE,
    Answer,
    Run,
    follow,
    in_this_process,
    make_ready,
)
from tests.kafka.dead_broker.supervisor import METADATA, Start, contents, restart
from tests.kafka.judge.broker import BrokerFailedError
from tests.kafka.judge.jars import release
from winnow.errors import VerificationError
from winnow.logdir.names import CLEAN_SHUTDOWN

STARTS = 5
TOPICS = (EXPIRING, USERS)
VERSIONS = ("3.9.2", "4.3.1", "4.4.0")
DISKS = {
    "ext4 without a free inode": Variant(TOPICS, kind="ext4", mib=200, inodes=160),
    "ext4 without a free byte": Variant(TOPICS, kind="ext4"),
    "xfs": Variant(TOPICS, kind="xfs"),
    "btrfs": Variant(TOPICS, kind="btrfs"),
    "tmpfs": Variant(TOPICS),
    "xfs, the metadata log on another disk": Variant(TOPICS, kind="xfs", two_log_dirs=True),
}


@dataclass(slots=True)
class Outcome:
    """What became of a broker whose disk was full."""

    starts: Sequence[Start]
    refusals: list[Answer] = field(default_factory=list)
    """Of `doctor`, `verify` and `recover --truncate`, while the metadata log was empty."""
    marked: bool = False
    """Whether one of these wrote the mark of a clean shutdown."""
    answers: Sequence[Answer] = ()
    """Of `doctor` and of the commands that it printed."""
    acknowledged: int = 0
    lost_by_starts: list[str] = field(default_factory=list)
    """What Kafka itself deleted when it was started on the full disk."""
    problems: list[str] = field(default_factory=list)
    """Every other record that a consumer should get and does not."""

    @property
    def emptied(self) -> list[str]:
        """The partitions that starts have emptied."""
        return sorted({name for start in self.starts for name in start.emptied})

    @property
    def failures(self) -> list[str]:
        """What must not be."""
        # What starts have emptied, `verify` still finds.
        done = {*DONE, *([VerificationError.exit_code] if self.emptied else [])}
        found = [f"{answer}" for answer in self.answers if answer.code not in done]
        found += [f"refuses nothing: {answer}" for answer in self.refusals if not answer.code]
        found += ["a marker was written although the metadata log is empty"] if self.marked else []
        return found + self.problems


def die_and_follow(variant: Variant, home: Path, load: Load, run: Run, *, starts: int) -> Outcome:
    """Fill a broker's disk, start it `starts` times, and follow the page about full disks."""
    with filled(variant, home, load) as dead:
        metadata = dead.log_dirs[0] / METADATA
        copy = home / "metadata-copy"
        # Zeros take no room: most of an active index is not there yet.
        _copy("--sparse=always", str(metadata), str(copy))
        with last_inodes_taken(dead.log_dirs[-1].parent):
            outcome = Outcome(restart(dead.broker, dead.log_dirs[-1], times=starts))
        outcome.acknowledged = sum(map(len, dead.acks.records.values()))
        if not contents(dead.log_dirs[0]).metadata:
            outcome.refusals = [run(command) for command in _on_an_empty_metadata_log(dead)]
            outcome.marked = (dead.log_dirs[0] / CLEAN_SHUTDOWN).exists()
            _copy(f"{copy}/.", f"{metadata}/")
        if variant.two_log_dirs:
            make_ready(dead, run)
        outcome.answers = follow(dead, run)
        try:
            problems = missing(dead, load, home)
        except BrokerFailedError as error:
            problems = [f"the broker does not start: {error}"]
        for problem in problems:
            of_a_start = any(f" {name}" in problem for name in outcome.emptied)
            (outcome.lost_by_starts if of_a_start else outcome.problems).append(problem)
        return outcome


def _copy(*arguments: str) -> None:
    """Copy as the page does."""
    subprocess.run(["cp", "-a", *arguments], check=True)


def _on_an_empty_metadata_log(dead: Dead) -> list[str]:
    properties = dead.broker.home / "server.properties"
    directories = " ".join(map(str, dead.log_dirs))
    rest = f"{directories} --server-properties {properties}"
    return [
        f"{COMMAND} doctor {rest}",
        f"{COMMAND} verify {directories}",
        f"{COMMAND} recover {rest} --truncate",
    ]


def main() -> int:
    options = _options()
    failed = False
    session = local_session()
    with tempfile.TemporaryDirectory(prefix="winnow-deaths-") as scratch, Load() as load:
        os.environ["XDG_STATE_HOME"] = f"{scratch}/state"
        run = in_this_process(session)
        for name, disk in DISKS.items():
            for version in options.kafka_version:
                if options.only not in name:
                    continue
                variant = replace(disk, version=release(version))
                home = Path(scratch) / f"{name} {version}".replace(" ", "-").replace(",", "")
                outcome = die_and_follow(variant, home, load, run, starts=options.starts)
                row = row_of(name, variant.version, outcome)
                sys.stdout.write(f"{row}\n")
                for answer in [*outcome.refusals, *outcome.answers] if options.verbose else ():
                    sys.stdout.write(f"{answer}\n")
                sys.stdout.write("".join(f"  {what}\n" for what in outcome.failures[:10]))
                sys.stdout.flush()
                failed = failed or bool(outcome.failures)
                if options.record:
                    add_to(options.record, row)
                shutil.rmtree(home, ignore_errors=True)
    session.stop()
    return int(failed)


def row_of(disk: str, version: str, outcome: Outcome) -> Row:
    """Return the line of the page."""
    ends = [
        "in service" if start.exit_code is None else f"exit {start.exit_code}"
        for start in outcome.starts
    ]
    lost = outcome.lost_by_starts
    return Row(
        disk=disk,
        version=version,
        starts=", ".join(ends),
        emptied=", ".join(f"`{name}`" for name in outcome.emptied) or "-",
        commands=", ".join(str(answer.code) for answer in outcome.answers),
        acknowledged=f"{outcome.acknowledged:,}",
        missing=str(len(outcome.problems)) + (f"; {len(lost)} emptied by Kafka" if lost else ""),
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a file system's name in DISKS")
    parser.add_argument("--kafka-version", action="append", help="default: " + ", ".join(VERSIONS))
    parser.add_argument("--starts", type=int, default=STARTS, help="at most, on the full disk")
    parser.add_argument("--record", type=Path, help="the page to add each death to")
    parser.add_argument("--verbose", action="store_true", help="print what each command says")
    options = parser.parse_args()
    options.kafka_version = options.kafka_version or VERSIONS
    return options


if __name__ == "__main__":
    sys.exit(main())
