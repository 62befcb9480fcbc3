"""Random lives of logs through Kafka and Winnow:
`.venv/bin/python -m tests.kafka.lives --lives 10000`.

Continues after a difference and prints the life as Python that reproduces it. The same seed and
batch size always give the same lives. `--first-life` continues where a run ended. `--kafka-version
3.9` lets the classes of that version judge, `all` those of each version in turn. `--prepared`: each
pass is prepared, written to, and committed (`tests.kafka.lives.prepared`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from pyspark.sql import SparkSession

from tests.conftest import local_session
from tests.kafka.judge.jars import KAFKA_VERSION, release, versions
from tests.kafka.judge.judge import Kafka
from tests.kafka.lives import prepared
from tests.kafka.lives.life import Life
from tests.kafka.lives.lives import draw_lives
from tests.kafka.lives.machine import run
from tests.kafka.lives.outcome import Difference, Outcome, Run
from tests.kafka.lives.record import record, row
from tests.kafka.lives.shrink import shrunk

MEMORY = Path("/dev/shm")  # noqa: S108 - both sync each file
APART = 1_000_000
"""Between the numbers of two seeds: no seed has so many batches."""


def main() -> int:
    options = _options()
    session = local_session()
    different = False
    with Kafka() as reader, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as drawing:
        for version in options.kafka_version:
            _say(f"Kafka {release(version)}:")
            with Kafka(version=version) as kafka:
                different |= _judged(options, session, kafka, reader, drawing)
    session.stop()
    return int(different)


def _judged(
    options: argparse.Namespace,
    session: SparkSession,
    kafka: Kafka,
    reader: Kafka,
    drawing: Executor,
) -> bool:
    """Whether anything differs."""
    began = time.monotonic()
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="winnow-lives-", dir=options.scratch) as scratch:

        def live(lives: Mapping[str, Life]) -> Outcome:
            of = prepared.run if options.prepared else run
            return of(session, kafka, Path(scratch) / "lives", lives, reader=reader)

        for lives in _drawn(drawing, options):
            found = all_lived(live, lives)
            outcome.add(found)
            for difference in found.differences:
                _say(
                    f"\n{difference.name}, {difference.when}: "
                    f"{difference.what}\n{difference.life!r}\n"
                )
            counts = (
                f"{outcome.committed} committed, {sum(outcome.dropped.values())} dropped"
                if options.prepared
                else f"{outcome.undone} undone, {outcome.refused} undos refused"
            )
            differences = f"{len(outcome.differences)} differences"
            took = f"{time.monotonic() - began:.0f} s"
            _say(f"{outcome.lives} lives, {counts}, {differences}, {took}")
        smallest = _smallest(live, outcome.differences) if options.shrink else []
    for difference in smallest:
        _say(
            f"\nthe smallest of its kind, {difference.when}: {difference.what}\n{difference.life!r}"
        )
    arguments = (
        f"--lives {options.lives} --seed {options.seed} --first-life {options.first_life} "
        f"--batch {options.batch}{' --prepared' if options.prepared else ''}"
    )
    line = row(outcome, kafka.version, arguments, minutes=(time.monotonic() - began) / 60)
    _say(line)
    if options.record:
        record(line)
    return bool(outcome.differences)


def _drawn(drawing: Executor, options: argparse.Namespace) -> Iterator[dict[str, Life]]:
    """Batches of lives by name; the next one is drawn while one is lived."""
    end = options.first_life + options.lives
    firsts = range(options.first_life, end, options.batch)

    def draw(first: int) -> Future[list[Life]]:
        return drawing.submit(
            draw_lives, options.batch, options.seed * APART + first // options.batch
        )

    following = draw(firsts[0])
    for first in firsts:
        lives = following.result()[: end - first]
        following = draw(first + options.batch)
        yield {f"life-{first + number}": life for number, life in enumerate(lives)}


def all_lived(live: Run, lives: Mapping[str, Life]) -> Outcome:
    """The outcome, even if a life breaks the machine: it is looked for by halves, and is a
    difference.
    """
    try:
        return live(lives)
    except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
        if len(lives) == 1:
            ((name, life),) = lives.items()
            text = "".join(traceback.format_exception(error))
            return Outcome(lives=1, differences=[Difference(name, life, "on the way", text)])
    outcome = Outcome()
    half = len(lives) // 2
    for some in (list(lives.items())[:half], list(lives.items())[half:]):
        outcome.add(all_lived(live, dict(some)))
    return outcome


def _smallest(live: Run, differences: list[Difference]) -> list[Difference]:
    """One difference of each kind, made as small as it gets."""
    kinds = {difference.kind: difference for difference in reversed(differences)}
    return [shrunk(live, difference, say=_say) for difference in kinds.values()]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.lives", description=__doc__)
    parser.add_argument("--lives", type=int, default=150)
    parser.add_argument(
        "--kafka-version",
        type=lambda text: versions() if text == "all" else text.split(","),
        default=[KAFKA_VERSION],
        metavar="X.Y",
        help="whose classes judge: several with commas between them, or all",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-life", type=int, default=0, help="a multiple of --batch")
    parser.add_argument("--batch", type=int, default=150, help="lives at once, each a partition")
    parser.add_argument(
        "--prepared", action="store_true", help="prepare, let Kafka write to the log, and commit"
    )
    parser.add_argument("--record", action="store_true", help="keep the result")
    parser.add_argument(
        "--shrink", action="store_true", help="make one life of each kind of difference small"
    )
    parser.add_argument(
        "--scratch",
        default=MEMORY if MEMORY.is_dir() else None,
        help="where the logs go; default: memory, if it can be",
    )
    options = parser.parse_args()
    if options.first_life % options.batch:
        parser.error("--first-life: not a multiple of --batch")
    return options


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n" if not text.endswith("\n") else text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
