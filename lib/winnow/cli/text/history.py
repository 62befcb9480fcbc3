"""A ledger as tables: runs and erasures, newest first, and partitions, those that are due first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from winnow.cli.out import Paper, aligned
from winnow.ledger.history import History, PastErasure, PastPartition, PastRun
from winnow.words import counted, duration, moment, printable, size

MOST_RUNS = 20
MOST_PARTITIONS = 50
RUN_HEAD = ("run", "ended", "who", "cleaned", "left alone", "freed", "took")
ERASURE_HEAD = (
    "erasure",
    "ended",
    "who",
    "keys found",
    "records erased",
    "left",
    "freed",
    "proven",
)
PARTITION_HEAD = (
    "partition",
    "log directory",
    "runs",
    "freed",
    "last cleaned",
    "last looked at",
    "due by max lag",
)
_WORDS = {RUN_HEAD: 3, ERASURE_HEAD: 3, PARTITION_HEAD: 2}
"""Number of leading columns that hold words."""

Row = tuple[str, ...]


def show(history: History, paper: Paper, *, now: int) -> None:
    """Print the tables. `now`, in ms since the epoch, gives how long ago things happened."""
    runs, partitions = history.runs, sorted(history.partitions, key=_urgency)
    erased = f", {counted(len(history.erasures), 'erasure')}" if history.erasures else ""
    paper.print(
        f"{counted(len(runs), 'run')} over {counted(len(partitions), 'partition')}: "
        f"{size(history.freed_bytes)} freed"
        f"{erased} ({printable(history.ledger)})",
    )
    lines = [
        *_section(RUN_HEAD, [_run(run) for run in runs], most=MOST_RUNS, noun="run"),
        *_section(
            ERASURE_HEAD,
            [_erasure(one) for one in history.erasures],
            most=MOST_RUNS,
            noun="erasure",
        ),
        *_section(
            PARTITION_HEAD,
            [_partition(p, now) for p in partitions],
            most=MOST_PARTITIONS,
            noun="partition",
        ),
        *_left_alone(partitions),
    ]
    for line in lines:
        paper.print(line)


def _run(run: PastRun) -> Row:
    return (
        run.run_id,
        moment(run.ended),
        printable(f"{run.user}@{run.host}"),
        f"{run.cleaned} of {run.partitions}",
        str(run.left_alone),
        size(run.freed_bytes) + (f" (+ {size(run.kept_bytes)} kept)" if run.kept_bytes else ""),
        duration(run.ended - run.started),
    )


def _erasure(one: PastErasure) -> Row:
    return (
        one.run_id,
        moment(one.ended),
        printable(f"{one.user}@{one.host}"),
        f"{one.keys_found} of {one.keys}",
        str(one.records_erased),
        str(one.records_left),
        size(one.freed_bytes),
        "" if one.proven is None else "yes" if one.proven else "NO",
    )


def _partition(p: PastPartition, now: int) -> Row:
    return (
        f"{p.topic}-{p.partition}",
        printable(f"{p.host}:{p.log_dir}"),
        str(p.runs),
        size(p.freed_bytes),
        "never" if p.last_cleaned is None else _ago(p.last_cleaned, now),
        _ago(p.last_run, now),
        ""
        if p.due is None
        else f"in {duration(p.due - now)}"
        if p.due > now
        else f"overdue {duration(now - p.due)}",
    )


def _ago(then: int, now: int) -> str:
    return f"{duration(now - then)} ago" if now > then else moment(then)


def _urgency(p: PastPartition) -> tuple[bool, int, str, int]:
    return (p.due is None, p.due or 0, p.topic, p.partition)


def _section(head: Row, rows: Sequence[Row], *, most: int, noun: str) -> Iterator[Text]:
    """Yield a table after an empty line; nothing without rows. Columns of words come first, figures
    are right-aligned.
    """
    if not rows:
        return
    yield Text()
    first, *lines = aligned((head, *rows[:most]), words=range(_WORDS[head]))
    yield Text(first, style="bold")
    yield from map(Text, lines)
    yield from _more(len(rows) - most, noun)


def _more(count: int, noun: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"and {counted(count, noun)} more (--json has all of them)", style="dim")


def _left_alone(partitions: Sequence[PastPartition]) -> Iterator[Text]:
    alone = [p for p in partitions if p.left_alone is not None]
    if alone:
        yield Text("\nLeft alone by the last run", style="bold")
    for p in alone[:MOST_PARTITIONS]:
        yield Text(printable(f"  {p.topic}-{p.partition}: {p.left_alone}"), style="yellow")
    yield from _more(len(alone) - MOST_PARTITIONS, "partition")
