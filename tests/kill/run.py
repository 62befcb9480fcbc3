"""`python -m tests.kill.run [--verb erase] --runs 200 --seed N [--record FILE]`: many real runs,
each killed at a random moment.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.conftest import local_session
from tests.kafka.judge.judge import Kafka
from tests.kill.fields import VERBS, Verb, make_field
from tests.kill.kills import Kill, Lengths, Outcome, carry_out, choose, measure
from tests.kill.page import filled, put_section, table
from tests.machine import machine

KAFKA_EVERY = 10
HEADINGS: dict[Verb, str] = {"clean": "# Killed runs", "erase": "## Killed erasures"}
RUNS: dict[Verb, str] = {
    "clean": "`./spark-submit.sh clean` over 13 partitions",
    "erase": "`./spark-submit.sh erase` of five keys in 13 partitions",
}


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
        field = make_field(session, Path(scratch), options.verb)
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
    text = report(done, failed, lengths, verb=options.verb, seed=options.seed)
    _say(text)
    if options.record:
        put_section(options.record, text)
    return 1 if failed else 0


def report(
    done: list[tuple[Kill, Outcome]],
    failed: list[str],
    lengths: Lengths,
    *,
    verb: Verb,
    seed: int,
) -> str:
    """What happened, as a section of a page of docs/proofs."""
    states = sorted({outcome.state for _, outcome in done})
    counts = Counter((kill.victim, outcome.state) for kill, outcome in done if outcome.killed)
    about = (
        f"Each run is a real {RUNS[verb]}, killed with SIGKILL at a random moment. The victim is "
        "the process group, the JVM, the driver, a Python worker, or an executor (standalone "
        "cluster on one machine). Then the next run follows, and every file is compared, byte for "
        "byte, with those of an undisturbed run. After the death of a worker or an executor there "
        "is no next run: the run itself must succeed."
    )
    page = "--record docs/proofs/kill.md"
    runs = len(done) + len(failed)
    if verb == "erase":
        about += (
            " Only producer snapshots may be missing: where a swap had begun, recovery removes the "
            "one at its base, as a loader does."
        )
    option = "" if verb == "clean" else f" --verb {verb}"
    missed = sum(not outcome.killed for _, outcome in done)
    longest = max((outcome.alive_s for _, outcome in done), default=0.0)
    took = (
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}. An undisturbed run takes {lengths.start:.1f} "
        f"s until it stages, {lengths.staging:.2f} s until it commits, and {lengths.commit:.2f} s "
        "to commit and end."
    )
    rest = (
        f"{missed} runs ended before they could be killed. No process of a run lived longer than "
        f"{longest:.1f} s after the lock was free, and none of them wrote to a log in that time. "
        f"Before the next run, every {KAFKA_EVERY}th directory was given to Kafka's own loader. It "
        "loaded each partition, with everything that has to be kept."
    )
    sections = [
        HEADINGS[verb],
        filled(about),
        f"    python -m tests.kill.run{option} --runs {runs} --seed {seed} {page}",
        filled(took),
        f"**{len(done)} of {runs} passed.** What the kills left:",
        "\n".join(table(counts, states)),
        filled(rest),
        *(["### Failures", "\n".join(f"* {text}" for text in failed)] if failed else []),
    ]
    return "\n\n".join(sections)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verb", choices=VERBS, default="clean")
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
