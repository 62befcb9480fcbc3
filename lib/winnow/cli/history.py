"""The verb `history`: show a ledger as tables or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winnow.cli.call import Call
from winnow.cli.options import NOW, OTHER, value_of
from winnow.cli.out import (
    Line,
    Row,
    Styled,
    aligned,
    fields_of,
    fitted,
    item,
    page_width,
    section,
)
from winnow.cli.text.alike import Alike, alike
from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.ledger.place import check_ledger, default_ledger
from winnow.words import counted, duration, first_few, moment, printable, size

if TYPE_CHECKING:
    from winnow.ledger.history import History, PastErasure, PastPartition, PastRun

MOST_RUNS = 20
MOST_PARTITIONS = 30
MOST_REASONS = 8
MOST_NAMES = 3
_NEEDED = 4
"""Columns that are never omitted. The last ones are, where there is no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    since: str | None = OTHER.option("Only runs that ended then or later.", NOW)


def run_history(call: Call, own: HistoryOptions) -> int:
    request = call.request
    where = default_ledger() if request.ledger is None else request.ledger
    check_ledger(where, ())
    begin = value_of(own, "since")
    if begin is not None and begin > now_ms():
        raise UsageError("--since is in the future", expected="a time in the past", found=own.since)
    with call.spark(sql=True) as spark:
        from winnow import api  # noqa: PLC0415 - it loads pyspark

        with call.progress() as progress:
            history = api.history(
                spark, where, since=begin, topics=request.topics, progress=progress
            )
        call.answer(lambda: to_json(history), page(history, page_width(), now_ms()))
    return 0


def to_json(history: History) -> dict[str, Any]:
    """Return the JSON object. Times are in ms since the epoch."""
    return {"freed_bytes": history.freed_bytes, **fields_of(history)}


def page(history: History, width: int, now: int) -> Iterator[Line]:
    """Yield the tables. `now`, in ms since the epoch, gives how long ago things happened."""
    runs, partitions = history.runs, sorted(history.partitions, key=_urgency)
    erased = f", {counted(len(history.erasures), 'erasure')}" if history.erasures else ""
    yield (
        f"{counted(len(runs), 'run')} over {counted(len(partitions), 'partition')}: "
        f"{size(history.freed_bytes)} freed{erased} ({history.ledger})"
    )
    yield from _table("run", [_run(run) for run in runs], width)
    yield from _table("erasure", [_erasure(one) for one in history.erasures], width)
    yield from _partitions(partitions, width, now)
    alone = [
        (p.topic, f"{p.topic}-{p.partition}", printable(p.left_alone))
        for p in partitions
        if p.left_alone is not None
    ]
    title = f"Left alone by the last run: {counted(len(alone), 'partition')}"
    yield from section(title, _left_alone(alike(alone)))


def _run(run: PastRun) -> Row:
    kept = f" (+ {size(run.kept_bytes)} kept)" if run.kept_bytes else ""
    return {
        "run": run.run_id,
        "freed": f"{size(run.freed_bytes)}{kept}",
        "cleaned": f"{run.cleaned:,} of {run.partitions:,}",
        "left alone": f"{run.left_alone:,}",
        "took": duration(run.ended - run.started),
        "ended": moment(run.ended),
        "who": printable(f"{run.user}@{run.host}"),
    }


def _erasure(one: PastErasure) -> Row:
    return {
        "erasure": one.run_id,
        "proven": "" if one.proven is None else "yes" if one.proven else "NO",
        "records erased": f"{one.records_erased:,}",
        "left": f"{one.records_left:,}",
        "keys found": f"{one.keys_found:,} of {one.keys:,}",
        "freed": size(one.freed_bytes),
        "ended": moment(one.ended),
        "who": printable(f"{one.user}@{one.host}"),
    }


def _partition(p: PastPartition, now: int) -> Row:
    return {
        "partition": f"{p.topic}-{p.partition}",
        "log directory": printable(f"{p.host}:{p.log_dir}"),
        "due by max lag": ""
        if p.due is None
        else f"in {duration(p.due - now)}"
        if p.due > now
        else f"overdue {duration(now - p.due)}",
        "last cleaned": "never" if p.last_cleaned is None else _ago(p.last_cleaned, now),
        "freed": size(p.freed_bytes),
        "runs": str(p.runs),
        "last looked at": _ago(p.last_run, now),
    }


def _ago(then: int, now: int) -> str:
    return f"{duration(now - then)} ago" if now > then else moment(then)


def _urgency(p: PastPartition) -> tuple[bool, int, str, int]:
    return (p.due is None, p.due or 0, p.topic, p.partition)


def _partitions(partitions: Sequence[PastPartition], width: int, now: int) -> Iterator[Line]:
    """Yield the table of partitions. If all are in one log directory, it is named once."""
    rows = [_partition(p, now) for p in partitions]
    places = {row["log directory"] for row in rows}
    if len(places) != 1:
        yield from _table("partition", rows, width, names=2)
        return
    names = [name for name in rows[0] if name != "log directory"]
    rows = [{name: row[name] for name in names} for row in rows]
    yield from _table("partition", rows, width, title=f"Partitions in {places.pop()}")


def _table(
    noun: str, rows: Sequence[Row], width: int, *, names: int = 1, title: str = ""
) -> Iterator[Line]:
    """Yield a table after an empty line; nothing without rows. The first `names` columns are names,
    the others figures, which are right-aligned.
    """
    if not rows:
        return
    most = MOST_PARTITIONS if noun == "partition" else MOST_RUNS
    table = fitted(rows[:most], width, names=names, needed=_NEEDED)
    head, *lines = aligned(table, *[*table[0]][:names])
    yield ""
    yield from (Styled(one, "bold") for one in (title, head) if one)
    yield from lines
    yield from _more(len(rows) - most, noun)


def _more(count: int, noun: str) -> Iterator[Line]:
    if count > 0:
        yield Styled(f"and {counted(count, f'more {noun}')}; --json has all", "dim")


def _left_alone(groups: Sequence[Alike]) -> Iterator[Line]:
    for group in groups[:MOST_REASONS]:
        names = first_few(group.names, MOST_NAMES)
        yield item(f"{names}: {group.words('--json')}", "yellow")
    yield from _more(len(groups) - MOST_REASONS, "reason")
