"""`python -m tests.kill.run --runs 200 --seed N [--record FILE]`: many real runs, each killed at a
random moment.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.conftest import local_session
from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from tests.kill import log
from tests.kill.kills import Field, Kill, Lengths, Outcome, Victim, carry_out, choose, measure
from tests.spark.runs import clean, run

KAFKA_EVERY = 10
NIGHTS = "## Nights with known segments"
"""Heads the last section of the page, which `tests.kill.nights` writes."""


def make_field(spark: SparkSession, scratch: Path) -> Field:
    """A log directory, and what an undisturbed run makes of it."""

    def again(log_dir: Path) -> None:
        result = run(clean, spark, log_dir, sets=log.SETS)
        left = [
            f"{p.topic}-{p.partition}: {p.error or p.reason}"
            for p in result.partitions
            if p.left_alone or p.error
        ]
        assert not left, left

    source, undisturbed = log.make(scratch / "source"), scratch / "undisturbed"
    copy_tree(source, undisturbed)
    again(undisturbed)
    return Field(source, undisturbed, scratch, again)


def main() -> int:
    options = _options()
    rng = random.Random(options.seed)
    session = local_session()
    done: list[tuple[Kill, Outcome]] = []
    failed: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="winnow-kill-", dir=options.scratch) as scratch,
        Kafka() as kafka,
    ):
        os.environ["XDG_STATE_HOME"] = f"{scratch}/state"
        field = make_field(session, Path(scratch))
        lengths = measure(field)
        _say(f"an undisturbed run: {lengths}")
        for number in range(options.runs):
            kill = choose(rng, number, lengths)
            began = time.monotonic()
            try:
                outcome = carry_out(kill, field, kafka=kafka if number % KAFKA_EVERY == 0 else None)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed.append(f"{number}: {kill}: {error}")
                _say(f"FAILED {failed[-1]}")
                continue
            done.append((kill, outcome))
            _say(
                f"{number + 1}/{options.runs} {kill} -> {outcome} ({time.monotonic() - began:.0f} "
                "s)"
            )
    session.stop()
    text = report(done, failed, lengths, seed=options.seed)
    _say(text)
    if options.record:
        before = options.record.read_text(encoding="utf-8") if options.record.exists() else ""
        _, heading, nights = before.partition(NIGHTS)
        last = f"\n{heading}{nights}" if heading else ""
        options.record.write_text(text + last, encoding="utf-8")
    return 1 if failed else 0


def report(
    done: list[tuple[Kill, Outcome]], failed: list[str], lengths: Lengths, *, seed: int
) -> str:
    """What happened, as a page of docs/proofs."""
    states = sorted({outcome.state for _, outcome in done})
    counts = Counter((kill.victim, outcome.state) for kill, outcome in done if outcome.killed)
    lines = [
        "# Killed runs",
        "",
        "Each run is a real `./spark-submit.sh clean` over 13 partitions, killed with SIGKILL at a",
        "random moment. The victim is the process group, the JVM, the driver, a Python worker, or",
        "an executor (standalone cluster on one machine). Then the next run follows with the same",
        "`--now`, and every file is compared, byte for byte, with those of an undisturbed run.",
        "After the death of a worker or an executor there is no next run: the run itself must",
        "succeed.",
        "",
        (
            f"    python -m tests.kill.run --runs {len(done) + len(failed)} --seed {seed} --record "
            "docs/proofs/kill.md"
        ),
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}. An undisturbed run takes",
        f"{lengths.start:.1f} s until it stages, {lengths.staging:.1f} s until it commits, and",
        f"{lengths.commit:.1f} s to commit and end.",
        "",
        f"**{len(done)} of {len(done) + len(failed)} passed.** What the kills left:",
        "",
        *table(counts, states),
    ]
    missed = sum(not outcome.killed for _, outcome in done)
    longest = max((outcome.alive_s for _, outcome in done), default=0.0)
    lines += [
        "",
        f"{missed} runs ended before they could be killed. No process of a run lived longer than",
        f"{longest:.1f} s after the lock was free, and none of them wrote to a log in that time.",
        f"Before the next run, every {KAFKA_EVERY}th directory was given to Kafka's own loader. It",
        "loaded each partition, with everything that has to be kept.",
        *(["", "## Failures", "", *(f"* {text}" for text in failed)] if failed else []),
        "",
    ]
    return "\n".join(lines)


def table(counts: Counter[tuple[Victim, Any]], columns: Sequence[str]) -> list[str]:
    """`counts`: killed runs by victim and column."""
    lines = [
        "| killed | " + " | ".join(columns) + " | all |",
        "|---|" + "--:|" * (len(columns) + 1),
    ]
    for victim in sorted({victim for victim, _ in counts}):
        row = [counts[victim, column] for column in columns]
        lines.append(f"| {victim} | " + " | ".join(map(str, [*row, sum(row)])) + " |")
    return lines


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if "model name" in line),
        platform.machine(),
    )
    return f"{os.cpu_count()} cores ({model}), {platform.system()} {platform.release()}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="where the page goes")
    parser.add_argument("--scratch", help="where the copies go; default: the system's place")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
