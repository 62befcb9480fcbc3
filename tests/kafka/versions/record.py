"""The page that keeps what became of each version."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import processor
from tests.kafka.versions.eras import ERAS
from tests.kafka.versions.story import Outcome

COMMAND = ".venv/bin/python -m tests.kafka.versions --record"
PAGE = """\
# Kafka's versions, judged by their brokers

For each version a real broker and clients of that version fill a log directory: compacted topics
with each codec, tombstones, transactions (one left open), a topic that the broker's cleaner has
cleaned once, retention by time and by size, groups with committed offsets. With ZooKeeper they also
write message formats v0 and v1. The KRaft of 2.8 and 3.0 was a preview: these have ZooKeeper only.
The broker stops. Winnow cleans with `--kafka-version`, and a copy without it. Then:

* That version's broker starts on the result, and complains of nothing that it does not complain of
  on the directory as it was.
* Consumers find the same last value of each key and the same ends. A group goes on from its offset.
  Idempotent and transactional producers that lived on during the cleaning go on, and so does a
  transaction that was open. A repeated batch is known, a gap refused.
* *As the broker*: the partitions in which that broker's own cleaner and retention keep the same
  records on a copy. *Same bytes*: of uncompressed logs, those with the same bytes, too. A delete
  horizon is a time of the cleaning; logs that have one differ in it.
* *Without*: the partitions that have the same records without `--kafka-version`, and the version
  that Winnow then found out.

    {command}

| version | partitions | compacted | records | after | as the broker | same bytes | without | \
result | date | machine |
|---|--:|--:|--:|--:|--:|--:|---|---|---|---|
{rows}
"""


def add_to(page: Path, outcome: Outcome) -> None:
    """Put the row of a version into the page, in place of its last one."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if _is_row(line)}
    rows[outcome.era.title] = row(outcome)
    ordered = [rows[era.title] for era in ERAS if era.title in rows]
    page.write_text(PAGE.format(command=COMMAND, rows="\n".join(ordered)), encoding="utf-8")


def row(outcome: Outcome) -> str:
    cells = [
        outcome.era.title,
        outcome.partitions,
        outcome.compacted,
        outcome.records_before,
        outcome.records_after,
        outcome.same_as_broker,
        outcome.same_bytes,
        f"{outcome.same_without}: {outcome.rules_without}",
        f"{len(outcome.problems)} differences" if outcome.problems else "as it must be",
        f"{datetime.now(UTC):%Y-%m-%d}",
        f"{processor()}, {os.cpu_count()} cores",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _is_row(line: str) -> bool:
    return line.startswith("| ") and line.split("|")[1].strip() in {era.title for era in ERAS}
