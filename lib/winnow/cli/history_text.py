"""What a ledger tells, as two tables: runs, the newest first, and partitions, those that are due first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from winnow.ledger.history import History, PastPartition, PastRun
from winnow.policy.words import duration
from winnow.words import counted, moment, printable, size

MOST_RUNS = 20
MOST_PARTITIONS = 50
RUN_HEAD = ("run", "ended", "who", "cleaned", "left alone", "freed", "took")
PARTITION_HEAD = ("partition", "log directory", "runs", "freed", "last cleaned", "due")

Row = tuple[str, ...]


def show(history: History, console: Console, *, now: int) -> None:
    """`now`: ms since the epoch, for how long ago things were."""
    runs, partitions = history.runs, sorted(history.partitions, key=_urgency)
    console.print(
        f"{counted(len(runs), 'run')} over {counted(len(partitions), 'partition')}: {size(history.freed_bytes)} freed "
        f"({printable(history.ledger)})\n",
        soft_wrap=True,
    )
    if not runs:
        return
    lines = [
        *_table(RUN_HEAD, [_run(run) for run in runs[:MOST_RUNS]], left=3),
        *_more(len(runs) - MOST_RUNS, "run"),
        Text(),
        *_table(PARTITION_HEAD, [_partition(p, now) for p in partitions[:MOST_PARTITIONS]], left=2),
        *_more(len(partitions) - MOST_PARTITIONS, "partition"),
        *_left_alone(partitions),
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


def _run(run: PastRun) -> Row:
    return (
        run.run_id,
        moment(run.ended),
        printable(f"{run.user}@{run.host}"),
        f"{run.cleaned} of {run.partitions}",
        str(run.left_alone),
        size(run.freed_bytes - run.kept_bytes) + (f" (+ {size(run.kept_bytes)} kept)" if run.kept_bytes else ""),
        duration(run.ended - run.started),
    )


def _partition(p: PastPartition, now: int) -> Row:
    return (
        f"{p.topic}-{p.partition}",
        printable(f"{p.host}:{p.log_dir}"),
        str(p.runs),
        size(p.freed_bytes),
        "never" if p.last_cleaned is None else _ago(p.last_cleaned, now),
        "" if p.due is None else f"in {duration(p.due - now)}" if p.due > now else f"overdue {duration(now - p.due)}",
    )


def _ago(then: int, now: int) -> str:
    return f"{duration(now - then)} ago" if now > then else moment(then)


def _urgency(p: PastPartition) -> tuple[bool, int, str, int]:
    return (p.due is None, p.due or 0, p.topic, p.partition)


def _table(head: Row, rows: Sequence[Row], *, left: int) -> Iterator[Text]:
    """`left`: so many columns are words; the others are flush right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for number, row in enumerate((head, *rows)):
        cells = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield Text("  ".join(cells).rstrip(), style="" if number else "bold")


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
