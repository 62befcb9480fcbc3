"""`python -m tests.kafka.recover --tails 5000 --seed 1 [--record FILE]`: damage many logs, recover
each with Winnow and with Kafka's own classes, and compare every file.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import describe_hardware
from tests.kafka.judge.jars import KAFKA_VERSION
from tests.kafka.judge.judge import Kafka
from tests.kafka.recover.compare import Compared, compare_tails, sources

AT_ONCE = 250
COMMAND = "python -m tests.kafka.recover"
RECORD = "docs/proofs/recover.md"


def main() -> int:
    options = _options()
    compared = Compared()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="winnow-recover-", dir=options.scratch) as scratch:
        among = sources(Path(scratch) / "sources")
        with Kafka(timeout_seconds=600) as kafka:
            for first in range(options.seed, options.seed + options.tails, AT_ONCE):
                seeds = range(first, min(first + AT_ONCE, options.seed + options.tails))
                root = Path(scratch) / "tails"
                compared.add(compare_tails(kafka, root, seeds, among))
                shutil.rmtree(root)
                done = seeds.stop - options.seed
                sys.stderr.write(
                    f"{done} of {options.tails}: {compared.same} equal, "
                    f"{len(compared.different)} differ, {len(compared.refused)} refused\n"
                )
    text = report(compared, options, time.monotonic() - began)
    sys.stdout.write(text)
    if options.record:
        options.record.write_text(text, encoding="utf-8")
    return 1 if compared.different else 0


def report(compared: Compared, options: argparse.Namespace, seconds: float) -> str:
    kinds = [
        ("equal, byte for byte", compared.same),
        ("of them, something was cut", compared.cut),
        ("Kafka fails to load them; Winnow leaves them alone", compared.refused_by_both),
        ("a .log is lost; Kafka deletes its indexes, Winnow keeps them", compared.lost),
        ("Kafka loads them; Winnow leaves them alone", len(compared.refused)),
        (
            "`clean` leaves them to `recover`; all others it cuts alike",
            compared.left_by_clean,
        ),
        ("different", len(compared.different)),
    ]
    lines = [
        "# Recovered logs",
        "",
        "Each log is made from a recorded one: its last segments, and one to three changes at",
        "random: a cut at any byte, zeros, flipped bits, a repeated batch, batches of other leader",
        "epochs, torn or missing indexes, damaged or missing snapshots, missing segments, other",
        "checkpoints. Winnow recovers one copy (`recover --truncate`), Kafka's `LogLoader` and a",
        "clean close the other. Then every file is compared, byte for byte, and both ends of the",
        "log.",
        "",
        f"    {COMMAND} --tails {options.tails} --seed {options.seed} --record {RECORD}",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Kafka {KAFKA_VERSION}, {seconds / 60:.0f} minutes.",
        "",
        describe_hardware(),
        "",
        "| logs | |",
        "|---|--:|",
        *(f"| {name} | {count} |" for name, count in kinds),
        "",
        *(f"* {line}" for line in (*compared.different, *compared.refused)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tails", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="where the page goes")
    parser.add_argument(
        "--scratch", type=Path, help="where the logs are made; a temporary directory"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
