"""`python -m tests.kill.nights --nights 40 --seed N [--record FILE]`: nightly runs over one log
directory that leave known segments unread, each killed at a random moment.

After each kill another run goes on, and every file is compared with those of a directory whose runs
read everything and are never killed. A run whose worker or executor was killed must have done all
of it itself. All that is known of segments is checked after the kill and after the next run, record
by record.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from tests.conftest import local_session
from tests.kill.kills import (
    CLUSTER,
    RUN_SECONDS,
    SURVIVED,
    Victim,
    has_begun,
    strike,
    wait_for_lock,
)
from tests.kill.page import filled, put_section, table
from tests.kill.processes import Run
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from tests.machine import machine
from tests.spark.known_segments import check_known
from tests.spark.nights import DAY_MS, FIRST, bytes_of, clean_partitions
from winnow.api import recover
from winnow.cleaning.learn import learn_segments
from winnow.ledger.place import KEY_SUMMARIES, default_ledger
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings
from winnow.wire.plain import Record

NAMES = ("t-0", "t-1")
SEGMENT_BYTES = 17 * 2**20
"""A segment of 16 MiB or more is summed up."""
FULL_SEGMENTS = 3
_VALUE = b"v" * 2**14
_KEYS_OF_SEGMENT = SEGMENT_BYTES // (len(_VALUE) + 100)
KEYS = FULL_SEGMENTS * _KEYS_OF_SEGMENT
HOT = range(KEYS, KEYS + 20)
_BATCH = 10
CONFIGS = (
    f"t cleanup.policy=compact\nt min.cleanable.dirty.ratio=0\nt segment.bytes={SEGMENT_BYTES}\n"
)
REQUEST: Mapping[str, Any] = {"configs": CONFIGS, "least_summed_up": None}

Moment = Literal["start", "staging", "keys", "commit", "list"]
MOMENTS: tuple[Moment, ...] = ("start", "staging", "keys", "commit", "list")
"""What is waited for. `keys`: a file of keys is there, or begun. `list`: a list of what is known is
being written, or has just been replaced.
"""


@dataclass(frozen=True, slots=True)
class Kill:
    victim: Victim
    moment: Moment
    after: float
    """Seconds from then on."""


@dataclass(frozen=True, slots=True)
class Night:
    killed: bool
    """False: the run had ended."""
    known: int
    """Segments that were known after the kill."""


@dataclass
class Nights:
    """`log_dir` has known segments, and its runs are killed. Runs over `other` read everything."""

    spark: SparkSession
    root: Path
    summaries: Path = field(default_factory=lambda: Path(default_ledger()) / KEY_SUMMARIES)
    day: int = 0

    @property
    def log_dir(self) -> Path:
        return self.root / "log-dir"

    @property
    def other(self) -> Path:
        return self.root / "other"

    def begin(self) -> None:
        """Write and clean full segments, and a small one with the keys that are written daily."""
        self._write([*range(KEYS), *HOT])
        self._clean()
        assert self._known() == FULL_SEGMENTS * len(NAMES)

    def night(self, kill: Kill, rng: random.Random) -> Night:
        self._write([rng.randrange(KEYS), *HOT])
        with (self.root / "output").open("wb") as output:
            seen = self._keys(), self._lists()
            master = ["--master", CLUSTER] if kill.victim == "executor" else []
            run = Run([*self._arguments(), *master], output=output)
            try:
                while not run.ended and not self._has_begun(kill.moment, *seen):
                    time.sleep(0.001)
                time.sleep(kill.after)
                killed = strike(run, kill.victim)
                code = run.wait(timeout_seconds=RUN_SECONDS)
                wait_for_lock(self.log_dir)
                run.wait_until_gone()
            finally:
                if run.processes():
                    run.kill_all()
        known = self._known()
        if kill.victim in SURVIVED:
            assert code == 0, (self.root / "output").read_text(errors="replace")[-3000:]
            self._clean_other()
            self._compare()
        if rng.random() < 0.5:
            recover([str(self.log_dir)])
            self._known()
        self._clean()
        self._known()
        self._learn()
        assert self._known() >= FULL_SEGMENTS * len(NAMES)
        return Night(killed, known)

    def undisturbed(self) -> int:
        """Write and clean one more day. Return how many segments were left unread."""
        self._write([*HOT])
        return self._clean()

    def _write(self, keys: list[int]) -> None:
        self.day += 1
        now = FIRST + self.day * DAY_MS
        for log_dir in (self.log_dir, self.other):
            with LogDirWriter(log_dir, clock=lambda: now) as writer:
                for number, _ in enumerate(NAMES):
                    log = writer.partition("t", number, SegmentConfig(segment_bytes=SEGMENT_BYTES))
                    for at in range(0, len(keys), _BATCH):
                        log.append_records(
                            [
                                Record(0, now, b"%d-%d" % (number, key), _VALUE + b"%d" % self.day)
                                for key in keys[at : at + _BATCH]
                            ]
                        )
                    log.roll()

    def _clean(self) -> int:
        """Both, in this process. Return how many segments were left unread."""
        results = clean_partitions(self.spark, self.log_dir, self.day, self.summaries, **REQUEST)
        self._clean_other()
        self._compare()
        return sum(result.segments_unread or 0 for result in results)

    def _clean_other(self) -> None:
        clean_partitions(self.spark, self.other, self.day, None, **REQUEST)

    def _compare(self) -> None:
        ours, others = bytes_of(self.log_dir), bytes_of(self.other)
        different = [name for name in {*ours, *others} if ours.get(name) != others.get(name)]
        assert not different, f"{different[:10]} differ from those of runs that read everything"

    def _learn(self) -> None:
        learn_segments(
            self.spark.sparkContext,
            [str(self.log_dir)],
            key_summaries=str(self.summaries),
            settings=Settings(topic_configs=parse_topic_configs(CONFIGS)),
        )

    def _known(self) -> int:
        return sum(check_known(self.summaries, self.log_dir / name) for name in NAMES)

    def _arguments(self) -> list[str]:
        sets = [
            word
            for line in CONFIGS.splitlines()
            for word in ("--topic-set", line.replace(" ", ":", 1))
        ]
        now = FIRST + self.day * DAY_MS + DAY_MS // 2
        return ["clean", str(self.log_dir), *sets, "--now", str(now), "--no-ledger", "--yes"]

    def _has_begun(self, moment: Moment, keys: set[str], lists: dict[str, int]) -> bool:
        if moment == "keys":
            return bool(self._keys() - keys)
        if moment == "list":
            return self._lists() != lists
        return moment == "start" or has_begun(self.log_dir, moment)

    def _keys(self) -> set[str]:
        return {path.name for path in self.summaries.glob("*/*/*/*.keys")}

    def _lists(self) -> dict[str, int]:
        """Inodes of lists, and of what is to become one."""
        found = {}
        for path in (*self.summaries.glob("*/*/*/*.json"), *self.summaries.glob("*/*/*/.*.tmp")):
            try:
                found[str(path)] = path.stat().st_ino
            except FileNotFoundError:
                continue
        return found


def choose(rng: random.Random) -> Kill:
    """Half of the kills are while something is written that is known of segments. Workers and
    executors are killed while there are tasks.
    """
    victims: tuple[Victim, ...] = ("group", "driver", "jvm", "worker", "executor")
    (victim,) = rng.choices(victims, (3, 2, 1, 2, 2))
    weights = (0, 1, 2, 0, 0) if victim in SURVIVED else (1, 1, 2, 1, 2)
    (moment,) = rng.choices(MOMENTS, weights)
    longest = {"start": 5.0, "staging": 0.5, "commit": 0.1}.get(moment, 0.03)
    return Kill(victim, moment, rng.choice((0.0, rng.random() * longest)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="page whose last section is written anew")
    options = parser.parse_args()
    rng, done = random.Random(options.seed), list[tuple[Kill, Night]]()
    with tempfile.TemporaryDirectory(prefix="winnow-nights-") as scratch:
        os.environ["XDG_STATE_HOME"] = f"{scratch}/state"
        nights = Nights(local_session(), Path(scratch))
        nights.begin()
        unread = nights.undisturbed()
        for _ in range(options.nights):
            done.append((kill := choose(rng), nights.night(kill, rng)))
            sys.stdout.write(f"{len(done)}/{options.nights} {kill} -> {done[-1][1]}\n")
            sys.stdout.flush()
    text = _section(done, unread, seed=options.seed)
    sys.stdout.write(text)
    if options.record:
        put_section(options.record, text)
    return 0


def _section(done: list[tuple[Kill, Night]], unread: int, *, seed: int) -> str:
    killed = Counter((kill.victim, kill.moment) for kill, night in done if night.killed)
    full = FULL_SEGMENTS * len(NAMES)
    lost = sum(night.known < full for _, night in done)
    command = f"python -m tests.kill.nights --nights {len(done)} --seed {seed}"
    what = (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}. Each night a real `./spark-submit.sh clean` "
        f"goes over one log directory with two partitions and {full} full segments of 17 MiB. An "
        f"undisturbed run leaves {unread} of them unread. Runs were killed with SIGKILL at the "
        "start, while staging, while keys of segments or lists of what is known were written, or "
        "while committing:"
    )
    result = (
        f"{len(done) - killed.total()} runs ended before they could be killed. A run whose worker "
        "or executor was killed had to finish its work itself. After any other kill, another run "
        f"followed. After **{len(done)} of {len(done)} nights** every file was the same as in a "
        f"directory whose runs read everything and are never killed. After {lost} kills fewer "
        "segments were known than before. All that was known after a kill, and after the next run, "
        "was true of its segment, record by record."
    )
    rows = "\n".join(table(killed, MOMENTS))
    page = "--record docs/proofs/kill.md"
    return (
        "\n\n".join(
            [
                "## Nights with known segments",
                f"    {command} {page}",
                filled(what),
                rows,
                filled(result),
            ]
        )
        + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
