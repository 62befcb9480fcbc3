"""The table that a notebook shows for a plan or a result."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from winnow.clean.result import NONE, PartitionResult, RunResult
from winnow.words import counted, moment, printable, redacted, size

MOST_ROWS = 50
_HEAD = ("partition", "action", "before", "after", "freed", "segments", "dirty", "why")


def table(result: RunResult) -> str:
    """Return the table: changed partitions first, then most bytes first, at most MOST_ROWS."""
    ordered = sorted(
        result.partitions, key=lambda p: (p.actions == (NONE,), -(p.bytes_before or 0), p.topic)
    )
    left = len(ordered) - MOST_ROWS
    more = f"<p>and {counted(left, 'partition')} more: see .to_df()</p>" if left > 0 else ""
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    body = "".join(_row(p) for p in ordered[:MOST_ROWS])
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f"<p>{escape(_title(result))}</p><table>{table}</table>{more}"


def freed_bytes(partitions: Sequence[PartitionResult]) -> int | None:
    """Return the bytes that all of them free together; None if any size afterwards is unknown."""
    freed = 0
    for p in partitions:
        if p.bytes_before is None and p.bytes_after is None:
            continue  # left alone and not read: it frees nothing
        if p.bytes_before is None or p.bytes_after is None:
            return None
        freed += p.bytes_before - p.bytes_after
    return freed


def _title(result: RunResult) -> str:
    acting = sum(p.actions != (NONE,) for p in result.partitions)
    done = "to be cleaned" if result.verb == "plan" else "cleaned"
    freed = freed_bytes(result.partitions)
    amount = (
        "how much this frees is unknown without an estimate"
        if freed is None
        else f"{size(freed)} freed"
    )
    return (
        f"{acting} of {counted(len(result.partitions), 'partition')} {done}, {amount}, at "
        f"{moment(result.now)}"
    )


def _row(p: PartitionResult) -> str:
    cells = (
        f"{p.topic}-{p.partition}",
        "-" if p.actions == (NONE,) else "+".join(p.actions),
        size(p.bytes_before),
        size(p.bytes_after),
        size(freed_bytes([p]) if p.bytes_before is not None else None),
        "" if p.segments_before is None else f"{p.segments_before} → {_number(p.segments_after)}",
        "" if p.dirty_ratio is None else f"{p.dirty_ratio:.2f}",
        p.reason if p.error is None else f"{p.reason}: {p.error}",
    )
    return f"<tr>{''.join(f'<td>{escape(printable(redacted(cell)))}</td>' for cell in cells)}</tr>"


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)
