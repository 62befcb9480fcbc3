"""docs/proofs/starts.md: what was recorded, and what is known to differ from the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from tests.kafka.judge.jars import PROJECT
from tests.kafka.starts.fate import Fate
from tests.kafka.starts.known import KNOWN
from tests.kafka.starts.recorded import Record

PAGE = PROJECT / "docs" / "proofs" / "starts.md"
TEXT = """\
# Starts of damaged brokers

What happens if this broker starts now? Real brokers answered that, and their answers are kept. A
broker of each version wrote log directories of three kinds: stopped cleanly, killed with SIGKILL
(both with two log directories), and stopped cleanly with one log directory. Each has compacted,
deleted, empty and transactional topics, a log that begins in the middle of a segment, and a
metadata log with snapshots (2.8.2: a ZooKeeper).

Each state is one of them with one or two changes: a file is missing, empty, zeroed, torn, replaced
by another partition's or another cluster's, of a newer version, or not readable; an offset of a
checkpoint is lower, higher, absent or malformed; a directory is missing, doubled, linked, renamed,
or a stranger's. A broker started on it. Its fate was read from its log and from the files that it
left: it ends, or takes a log directory offline, sets logs aside, makes new logs in their place,
cuts logs, recovers segments; where each log begins and ends.

Winnow's verdict on the same state (`winnow.start`) is compared with that: what it says with the
broker's server.properties, and what it promises or rules out without. Each test run does so with
all recorded states, and starts brokers anew on 40 states: a difference that is not listed
below fails.

    python -m tests.kafka.starts --kafka-version V --states N --seed S --record

| version | states | broker ends | directory offline | sets logs aside | cuts logs | \
as undamaged | made |
|---|--:|--:|--:|--:|--:|--:|---|
{rows}

## Differences

{known}
"""


def write(records: Sequence[Record]) -> None:
    rows = "\n".join(map(_row, records))
    known = "\n".join(fill(f"* {one.reason}", 100, subsequent_indent="  ") for one in KNOWN)
    PAGE.write_text(TEXT.format(rows=rows, known=known), encoding="utf-8")


def _row(record: Record) -> str:
    alive = {state: fate for state, fate in record.fates.items() if not fate.stops}
    cells = [
        record.version,
        len(record.fates),
        len(record.fates) - len(alive),
        sum(bool(fate.offline) for fate in alive.values()),
        sum(_sets_aside(fate) for fate in alive.values()),
        sum(map(_cuts, alive.values())),
        sum(_same(fate, record.undamaged(state.kind)) for state, fate in alive.items()),
        record.made,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _sets_aside(fate: Fate) -> bool:
    return any(name.endswith("-stray") for name in fate.renamed.values())


def _cuts(fate: Fate) -> bool:
    logs = [path for path in fate.gone if Path(path).suffix == ".log"]
    return bool(logs or fate.resized)


def _same(fate: Fate, undamaged: Fate) -> bool:
    return (fate.loaded, fate.gone) == (undamaged.loaded, undamaged.gone)
