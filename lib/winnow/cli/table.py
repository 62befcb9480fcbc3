"""The table that a person reads in five seconds: most to gain first, what was left alone and why, sums last."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from winnow.cli.words import counted, moment, size
from winnow.engine.result import NONE, PartitionResult, RunResult

PIPE_WIDTH = 100
"""Columns where there is no terminal to ask."""
FEW = 8
"""So many partitions that need nothing get a line each; more of them share one."""


def console_for_stdout() -> Console:
    """For sys.stdout: no colour off a terminal or with NO_COLOR, and a width that does not depend on where it runs."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, markup=False, emoji=False, width=PIPE_WIDTH)
    return console


def show(result: RunResult, console: Console) -> None:
    troubled = [p for p in result.partitions if p.left_alone or p.error is not None]
    active = [p for p in result.partitions if _acts(p)]
    idle = [p for p in result.partitions if not _acts(p) and p not in troubled]
    console.print(_title(result, acting=len(active)))
    if active or idle or troubled:
        console.print(_table(result, active, idle if len(idle) <= FEW else ()))
    if len(idle) > FEW:
        console.print(f"{len(idle)} partitions need nothing.")
    if troubled:
        console.print(f"\nLeft alone: {counted(len(troubled), 'partition')}")
        for text, names in _grouped(troubled).items():
            console.print(Text(f"  {', '.join(names)}", style="yellow"), soft_wrap=True)
            console.print(Text(f"      {text}"), soft_wrap=True)


def _title(result: RunResult, *, acting: int) -> str:
    planned = result.verb == "plan"
    if not result.partitions:
        return "No partition was found that the command names."
    what = "has work to do" if planned and acting == 1 else "have work to do" if planned else "cleaned"
    return f"{acting} of {counted(len(result.partitions), 'partition')} {what}, at {moment(result.now)}"


def _table(result: RunResult, active: Sequence[PartitionResult], idle: Sequence[PartitionResult]) -> Table:
    table = Table(box=None, pad_edge=False, show_footer=True, collapse_padding=True, header_style="bold")
    table.add_column("partition", _sums_name(result), overflow="fold", min_width=10)
    table.add_column("action", overflow="fold", min_width=9)
    for head, foot in _sums(result):
        table.add_column(head, foot, justify="right", no_wrap=True)
    table.add_column("dirty", justify="right", no_wrap=True)
    table.add_column("why", ratio=1, no_wrap=True, overflow="ellipsis", min_width=16)
    for partition in sorted(active, key=_gain_key):
        table.add_row(*_row(partition))
    for partition in sorted(idle, key=_name_key):
        table.add_row(*_row(partition), style="dim")
    table.columns[0].footer = Text(str(table.columns[0].footer), style="bold")
    return table


def _row(p: PartitionResult) -> tuple[str, ...]:
    return (
        f"{p.topic}-{p.partition}",
        "-" if not _acts(p) else ", ".join(p.actions),
        _size(p.bytes_before),
        _size(p.bytes_after),
        _freed(p.bytes_before, p.bytes_after),
        _segments(p.segments_before, p.segments_after),
        "" if p.dirty_ratio is None else f"{p.dirty_ratio:.2f}",
        p.reason,
    )


def _sums_name(result: RunResult) -> str:
    return f"all {len(result.partitions)}" if len(result.partitions) != 1 else "all"


def _sums(result: RunResult) -> tuple[tuple[str, str], ...]:
    """Heads and sums of the columns of figures; a sum over unknown parts is unknown."""
    known = [p for p in result.partitions if p.bytes_before is not None]
    before = sum(p.bytes_before or 0 for p in known)
    after = _sum(p.bytes_after if _acts(p) else p.bytes_before for p in known)
    segments = sum(p.segments_before or 0 for p in known)
    segments_after = _sum(p.segments_after if _acts(p) else p.segments_before for p in known)
    return (
        ("before", size(before)),
        ("after", _size(after)),
        ("freed", _freed(before, after)),
        ("segments", _segments(segments, segments_after)),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _acts(p: PartitionResult) -> bool:
    return any(action != NONE for action in p.actions)


def _gain_key(p: PartitionResult) -> tuple[float, str, int]:
    """Bytes that go; where only a run can tell, the dirty bytes are the best guess."""
    before = p.bytes_before or 0
    gain = before * (p.dirty_ratio or 0.0) if p.bytes_after is None else before - p.bytes_after
    return (-gain, *_name_key(p))


def _name_key(p: PartitionResult) -> tuple[str, int]:
    return (p.topic, p.partition)


def _grouped(troubled: Sequence[PartitionResult]) -> dict[str, list[str]]:
    """Partitions by what was said of them: one cause that hits a whole directory is told once."""
    texts = {p: p.reason if p.error is None or p.error == p.reason else f"{p.reason}: {p.error}" for p in troubled}
    counts = Counter(texts.values())
    groups: dict[str, list[str]] = {}
    for p in sorted(troubled, key=lambda p: (-counts[texts[p]], texts[p], *_name_key(p))):
        groups.setdefault(texts[p], []).append(f"{p.topic}-{p.partition}")
    return groups


def _size(count: int | None) -> str:
    return "?" if count is None else size(count)


def _freed(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return "?"
    return f"{100 * (before - after) / before:.0f} %" if before else "0 %"


def _segments(before: int | None, after: int | None) -> str:
    if before is None:
        return "?"
    return f"{before} > {'?' if after is None else after}"
