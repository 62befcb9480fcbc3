"""The record of all runs, and the page that says how many lives each version of Kafka judged."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.kafka.judge.jars import PROJECT, versions
from tests.kafka.lives.outcome import Outcome
from tests.machine import processor

RESULTS = Path(__file__).with_name("RESULTS.md")
PAGE = PROJECT / "docs" / "proofs" / "kafka-lives.md"
COMMAND = ".venv/bin/python -m tests.kafka.lives --kafka-version all --lives 200 --record"
TEXT = """\
# Kafka's versions, judged by their own cleaners

A life is a log that random choices make: settings, formats, codecs, producers, transactions,
tombstones, gaps, clocks, and five passes of cleaning and retention. The classes of a version write
it twice. Its cleaner and retention work on one copy, Winnow with `--kafka-version` on the other.
All files, checkpoints and lookups by timestamp must then be equal byte for byte. Batches that were
compressed again must have equal headers and records.

Five things differ, four of them on purpose:

* Up to 3.0 Kafka also cleans what lies above the high watermark (KAFKA-13194), and so may lose
  records that a new leader still has. Winnow never does. Lives of these versions have none there.
* Up to 3.0 Kafka drops a transaction's marker if a later record has the marker's four bytes as its
  key. Winnow never does. Lives of these versions have no such keys.
* Up to 3.9.0 Kafka's cleaner writes one index entry for each buffer that it has filled, not for
  each batch. Winnow's indexes are compared with those that this version rebuilds.
* Then a tiny segment.index.bytes can have room for Kafka's index of the cleaned segment but not
  for the rebuilt one. Winnow leaves such a log alone.
* Libraries compress to other sizes. Where `retention.bytes` lies between the size that Kafka leaves
  and the size that Winnow leaves, they delete other segments. Such a life ends.

    {command}

Lives and passes are those of all runs; [each run](../../tests/kafka/lives/RESULTS.md) has its line.

| version | lives | passes | differences in the last run | last run |
|---|--:|--:|--:|---|
{rows}
"""


def row(outcome: Outcome, version: str, arguments: str, *, minutes: float) -> str:
    """A line of the table in RESULTS.md."""
    ended = [f"{count} {why}" for why, count in sorted(outcome.ended.items())]
    ended += [
        f"{count} preparations dropped for {check}"
        for check, count in sorted(outcome.dropped.items())
    ]
    cells = (
        f"{datetime.now(UTC):%Y-%m-%d}",
        f"{processor()}, {minutes:.0f} minutes",
        version,
        f"`{arguments}`",
        f"{outcome.lives:,}",
        f"{outcome.passes:,} ({outcome.compacted:,} / {outcome.retained:,})",
        f"{outcome.batches:,}",
        f"{outcome.records:,}",
        f"{outcome.bytes / 2**20:.1f}",
        ", ".join(ended) or "none",
        f"{len(outcome.differences)}",
    )
    return f"| {' | '.join(cells)} |\n"


def record(line: str) -> None:
    """Add a line to the results, and write the page anew."""
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(line)
    PAGE.write_text(page(RESULTS.read_text(encoding="utf-8")), encoding="utf-8")


def page(results: str) -> str:
    """The page that goes with these results."""
    runs = [[cell.strip() for cell in line.split("|")[1:-1]] for line in results.splitlines()]
    rows = []
    for version in versions():
        of_version = [run for run in runs if len(run) > 4 and run[2] == version]
        if of_version:
            lives = sum(_number(run[4]) for run in of_version)
            passes = sum(_number(run[5].partition(" ")[0]) for run in of_version)
            last = of_version[-1]
            rows.append(f"| {version} | {lives:,} | {passes:,} | {last[-1]} | {last[0]} |")
    return TEXT.format(command=COMMAND, rows="\n".join(rows))


def _number(text: str) -> int:
    return int(text.replace(",", ""))
