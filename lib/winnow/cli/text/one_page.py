"""The page of `doctor` for the person on call: at most 24 lines of 80 columns. Only commands may be
longer. `doctor --all` has the details.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from winnow.advice import ONLY_WHILE
from winnow.cli.options import CommandLine
from winnow.cli.out import Line, Styled, apart, columns
from winnow.cli.text.alike import alike
from winnow.cli.text.doctor_summary import free_space, growth_words
from winnow.cli.text.findings import findings, name_of, names_in, short_of_space
from winnow.cli.text.full_disk import urgent_steps
from winnow.cli.text.held import why_nothing
from winnow.cli.text.narrow import COLUMNS, Names, rows
from winnow.cli.text.next_command import command, typed
from winnow.start.values import Fate
from winnow.start.words import start_lines, verdict
from winnow.words import counted, instant, one_line, redacted, size

if TYPE_CHECKING:
    from winnow.metrics.growth import Growth
    from winnow.verbs.doctor.values import Diagnosis, Disk

ROWS = 24
_LEAST = 8
"""Lines of titles, of the last step, and of what else was found."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """The maximum number of lines of each part of the page."""

    happened: int
    start: int
    """Of the verdict on the broker and its reasons."""
    step: int
    """Of each step before the first command."""
    why: int
    """Of what the first command does."""


_LIMITS = (
    *(_Limits(8, 9, 2, 3), _Limits(8, 7, 2, 3), _Limits(8, 5, 2, 3)),
    *(_Limits(6, 4, 2, 2), _Limits(4, 3, 1, 1), _Limits(3, 2, 1, 1)),
)
"""From the longest page to the shortest: the first limits with which the page fits are used. The
first two are for a start that does harm.
"""
_URGENT = 3
"""Steps before the first command."""
_DISKS = 3
"""Log directories that are named."""
_FINDINGS = 3
"""Lines that are reserved for other findings."""
_MORE = "  `--all` shows every partition, reason and command; --json has all of it."


def one_page(
    found: Diagnosis, request: CommandLine, growth: Sequence[Growth] = ()
) -> Iterator[Line]:
    """Yield what happened, whether the broker will start, what to run next and what that frees.
    Then a line for each other finding.
    """
    names = Names(names_in(found))
    harmful = any(start.is_harmful for start in found.starts)
    for limits in _LIMITS if harmful else _LIMITS[2:]:
        happened: list[Line] = [*islice(_happened(found, growth, names), limits.happened)]
        start = [*_start(found, names, limits.start)]
        steps = [*_steps(found, request, limits)]
        if sum(map(_height, (*happened, *start, *steps))) <= ROWS - _LEAST:
            break
    last: list[Line] = []
    if _has_start(found) and not _is_warning(found):
        last += rows(last_step(found), 2)
    others = [typed(command(a.arguments, request, a.log_dirs)) for a in found.advice[1:]]
    also: list[Line] = [*findings(found, names)]
    heads = 3 + bool(also) + 1  # the last one is that of --all
    room = ROWS - heads - sum(map(_height, (*happened, *start, *steps, *last)))
    shown = _others(found, others, room, len(also))
    room -= sum(map(_height, shown))
    if len(also) > room:
        rest = len(also) - max(room - 1, 0)
        also = [*also[: max(room - 1, 0)], f"  {counted(rest, 'more finding')} with --all"]
    also = also[: max(room, 0)]
    blocks = [
        ("What happened", happened),
        ("Will the broker start?", start),
        ("What to run next", [*steps, *shown, *last]),
        ("Also found", also),
    ]
    blocks = [(title, lines) for title, lines in blocks if lines]
    used = 1 + sum(1 + sum(map(_height, lines)) for _, lines in blocks)
    airy = used + len(blocks) <= ROWS
    for number, (title, lines) in enumerate(blocks):
        yield from [""] * bool(airy and number)
        yield Styled(title, "bold")
        yield from lines
    yield from [""] * airy
    yield Styled(_MORE, "dim")


def _height(line: Line) -> int:
    """Return the rows that a line takes: a long command takes several."""
    text = one_line(redacted(line if isinstance(line, str) else line.text))
    return max(-(-columns(text) // COLUMNS), 1)


def _happened(found: Diagnosis, growth: Sequence[Growth], names: Names) -> Iterator[str]:
    worst = sorted(found.disks, key=lambda d: (not d.is_full, not d.read_only, d.clean_shutdown))
    for disk in worst[:_DISKS]:
        holds = f": {size(disk.log_bytes)} of logs, {free_space(disk)}"
        paths = apart((one_line(other.log_dir) for other in worst), COLUMNS - 2 - len(holds))
        yield from rows(f"{paths[one_line(disk.log_dir)]}{holds}")
        yield from rows(growth_words(disk, growth).removeprefix(", "))
    if rest := worst[_DISKS:]:
        total = size(sum(disk.log_bytes for disk in rest))
        yield from rows(f"{counted(len(rest), 'more log directory')}: {total} of logs")
    yield from _events(worst)
    damaged = [t for t in found.troubles if t.error is not None]
    groups = alike((t.topic, name_of(t), t.error or "") for t in damaged)
    for group in groups[:1]:
        many = counted(len(damaged), "partition")
        which = names.few(group.names, 40) or "see --all"
        yield from rows(f"damaged: {many} ({which}): {names.in_text(group.text)}", 3)


def _events(disks: Sequence[Disk]) -> Iterator[str]:
    for disk in disks:
        if disk.read_only:
            what = "nothing can be changed there; after an error of the disk, `dmesg` says why"
            yield from rows(f"mounted read-only, {disk.log_dir}: {what}", 2)
            break
    for disk in disks:
        if disk.lacks_inodes:
            many = counted(disk.free_files or 0, "free inode")
            yield from rows(
                f"no more files can be made: {many}, although {size(disk.free_bytes)} are free. "
                "Remove files, however small",
                2,
            )
            break
        if disk.is_full:
            free, total = size(disk.free_bytes), size(disk.total_bytes)
            full = sum(other.is_full for other in disks)
            where = f"{full} disks are" if full > 1 else "the disk is"
            yield from rows(f"{where} full: {free} of {total} are free")
            break
    behind = [partition for disk in disks for partition in disk.behind]
    if behind:
        many = counted(len(behind), "log")
        end = "ends" if len(behind) == 1 else "end"
        yield from rows(
            f"a copy made while the broker ran, or a loss of power: {many} {end} below a "
            "checkpoint. Nothing found here says anything about the original",
            2,
        )
    crashed = [disk for disk in disks if disk.has_crashed]
    ran = [disk for disk in disks if disk.broker_runs]
    if ran:
        yield from rows(f"the broker runs{_which(ran, disks)}; this was read beside it")
    elif crashed:
        yield from rows(
            f"the broker crashed, was killed or dropped {crashed[0].log_dir}"
            if len(crashed) == 1
            else f"the broker crashed, was killed or dropped {len(crashed)} log directories",
            2,
        )
    elif not behind:
        last = max((d.cleaner_checkpoint_ms or 0 for d in disks), default=0)
        cleaned = instant(last) if last else "never"
        yield from rows(f"the broker was shut down cleanly; last cleaned: {cleaned}")


def _which(disks: Sequence[Disk], all_disks: Sequence[Disk]) -> str:
    count, of = len(disks), len(all_disks)
    return "" if count == of else f" on {count} of {of} log directories"


def _start(found: Diagnosis, names: Names, most: int) -> Iterator[Line]:
    """Yield the verdict on the most harmful broker with its reasons. Reasons about files that were
    not read come last. Other reasons and other brokers are counted.
    """
    if not found.starts:
        yield "  not predicted: the log directory is not on this machine"
        return
    first, *others = sorted(found.starts, key=lambda start: (not start.is_harmful, start.is_safe))
    shown = rows(names.in_text(verdict(first)), 1 if most < 5 else 2)
    yield from (Styled(line, "" if first.is_safe else "bold red") for line in shown)
    warning = rows(last_step(found), 1 if most < 4 else 2)
    warning = warning if _is_warning(found) else []
    reasons = sorted(start_lines(first), key=first.unseen.__contains__)
    room = most - len(shown) - len(warning) - (len(reasons) > 1 or bool(others))
    while reasons and room > 0:
        lines = rows(names.in_text(reasons.pop(0)), room, indent=4)
        room -= len(lines)
        yield from lines
    more = [counted(len(reasons), "more reason")] if reasons else []
    more += [counted(len(others), "more broker")] if others else []
    if more:
        yield f"    {' and '.join(more)} with --all"
    yield from (Styled(line, "bold red") for line in warning)


def _steps(found: Diagnosis, request: CommandLine, limits: _Limits) -> Iterator[Line]:
    """Yield what comes before any command, then the first command and what it frees."""
    urgent = list(
        {(s.short, s.command): s for s in urgent_steps(found.disks, found.starts)}.values()
    )
    for step in urgent[:_URGENT]:
        yield from rows(step.short, limits.step)
        if step.command:
            yield f"  {typed(step.command)}"
    if rest := urgent[_URGENT:]:
        yield f"  {counted(len(rest), 'more step')} before that, with --all"
    for advice in found.advice[:1]:
        yield f"  {typed(command(advice.arguments, request, advice.log_dirs))}"
        why = rows(advice.why, limits.why, indent=6, hang=0)
        yield from (Styled(line, "dim") for line in why)
    if not found.gains:
        yield from rows(f"nothing can be freed now: {_no_gain(found)}", limits.step)


def _no_gain(found: Diagnosis) -> str:
    return short_of_space(found) if found.short_of_space else why_nothing(found)


def _others(found: Diagnosis, commands: Sequence[str], room: int, findings: int) -> list[Line]:
    """Return the other commands, with what each does if there is room for that and for the
    findings.
    """
    with_why: list[Line] = []
    for text, advice in zip(commands, found.advice[1:], strict=True):
        with_why += [f"  {text}", *(Styled(line, "dim") for line in rows(advice.why, indent=6))]
    if sum(map(_height, with_why)) + findings <= room:
        return with_why
    shown: list[Line] = []
    room -= min(findings, _FINDINGS)
    for number, text in enumerate(commands):
        left = len(commands) - number - 1
        if sum(map(_height, (*shown, f"  {text}"))) + bool(left) > room:
            rest = ", ".join(f"`{advice.arguments[0]}`" for advice in found.advice[1 + number :])
            return [*shown, *rows(f"then, with --all: {rest}")][: max(room, 0)]
        shown.append(f"  {text}")
    return shown


def _has_start(found: Diagnosis) -> bool:
    return bool(found.starts) and not any(disk.broker_runs for disk in found.disks)


def _is_warning(found: Diagnosis) -> bool:
    return _has_start(found) and last_step(found).startswith("Do not")


def last_step(found: Diagnosis) -> str:
    """Return the last step: to start the broker, or not to."""
    full = any(d.frees_first for start in found.starts for d in start.log_dirs)
    harm = [start for start in found.starts if start.is_harmful]
    if full:
        stops = any(start.of_broker is Fate.STOPS for start in harm)
        mended = "what is named above is mended, " if stops else ""
        return (
            f"Do not start the broker before {mended}space is free and `recover --truncate` has "
            "recovered the logs; then start it with its settings unchanged."
        )
    if not all(start.only_needs_quorum for start in harm):
        return "Do not start the broker before what is named above is mended."
    if any(start.unseen for start in found.starts):
        return "Do not start the broker before `doctor` has seen all that it reads: see above."
    then = "Then start" if found.advice else "Start"
    if any(start.needs_quorum for start in found.starts):
        return f"{then} the broker {ONLY_WHILE}, with its settings unchanged."
    return f"{then} the broker with its settings unchanged."
