"""docs/proofs/starts.md: what was recorded, and how it compares with the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.kafka.judge.jars import PROJECT
from tests.kafka.starts.campaign import Judged
from tests.kafka.starts.known import KNOWN, reason_of
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

Winnow's verdict on the same state (`winnow.start`) is compared with that. Each test run does so
with all recorded states, and starts brokers anew on 40 states.

    python -m tests.kafka.starts --kafka-version V --states N --seed S --record

| version | states | broker ends | directory offline | sets logs aside | cuts logs | \
as undamaged | as the verdict | listed below | other differences | made |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
{rows}

## Differences

{known}
"""


def write(judged: Sequence[tuple[Record, Sequence[Judged]]]) -> None:
    rows = "\n".join(_row(record, found) for record, found in judged)
    counts = Counter(
        known
        for _, found in judged
        for one in found
        for known in {reason_of(one.state, text) for text in one.differences}
        if known is not None
    )
    known = "\n".join(f"* {one.reason} ({counts[one]} states.)" for one in KNOWN if counts[one])
    PAGE.write_text(TEXT.format(rows=rows, known=known or "None."), encoding="utf-8")


def _row(record: Record, found: Sequence[Judged]) -> str:
    fates = [one.fate for one in found]
    differing = [one for one in found if one.differences]
    other = [one for one in differing if one.unexplained]
    undamaged = [
        one
        for one in found
        if one.fate.started
        and one.fate.code is None
        and (one.fate.loaded, one.fate.gone)
        == (record.undamaged(one.state.kind).loaded, record.undamaged(one.state.kind).gone)
    ]
    cells = [
        record.version,
        len(found),
        sum(fate.stops for fate in fates),
        sum(bool(fate.offline) and not fate.stops for fate in fates),
        sum(bool(fate.renamed) and not fate.stops for fate in fates),
        sum(_cuts(one) for one in found),
        len(undamaged),
        len(found) - len(differing),
        len(differing) - len(other),
        len(other),
        record.made,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _cuts(one: Judged) -> bool:
    logs = [path for path in one.fate.gone if Path(path).suffix == ".log"]
    return not one.fate.stops and bool(logs or one.fate.resized)
