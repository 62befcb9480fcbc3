"""The verb `doctor`: one page on what is wrong with log directories and which command helps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from winnow.cleaning.result import TOMBSTONE_AGES
from winnow.cli.exit_codes import guarded
from winnow.cli.inputs import check_log_dirs, now_of, parse_settings
from winnow.cli.options import OTHER, CommandLine
from winnow.cli.out import Paper, by_the_rules, complain, tell, tell_json, version_keys, wrapped
from winnow.cli.session import spark_context
from winnow.cli.text.alike import alike
from winnow.cli.text.next_command import command, typed
from winnow.cli.text.progress import progress_on_stderr
from winnow.verbs.erase.values import Amount
from winnow.words import counted, duration, instant, moment, printable, roughly, size

if TYPE_CHECKING:
    from winnow.verbs.doctor.values import Census, Diagnosis, Gain, Overdue


_SHOWN = 8
"""Topics that are named one by one."""
MOST = 10
"""Lines in each list on the page. --json has all."""
_FEW = 3
"""Partitions with the same trouble that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    deep: bool = OTHER.switch(
        "Also read all records of compacted topics: report records without a key, and tombstones."
    )


def run_doctor(request: CommandLine, own: DoctorOptions) -> int:
    now = None

    def work() -> int:
        nonlocal now
        now = now_of(request)
        settings = parse_settings(request)
        check_log_dirs(request.log_dirs)
        with spark_context(quiet=request.quiet) as spark:
            from winnow import api  # noqa: PLC0415 - it loads numba

            with progress_on_stderr(quiet=request.quiet) as progress:
                found = api.doctor(
                    spark,
                    list(request.log_dirs),
                    settings=settings,
                    topics=tuple(request.topics),
                    now=now,
                    deep=own.deep,
                    progress=progress,
                )
            for note in found.notes:
                complain(f"note: {note}")
            if request.json:
                tell_json(to_json(found, request))
            else:
                paper = Paper()
                tell(lambda: paper.page(page(found, request, paper.width)))
        return found.exit_code

    return guarded(work, json=request.json, now=lambda: now)


def to_json(found: Diagnosis, request: CommandLine) -> dict[str, Any]:
    """Return the JSON object. Scripts depend on its keys: do not remove or rename any."""
    advice = [
        {"command": command(item.arguments, request), "why": item.why} for item in found.advice
    ]
    value = asdict(found)
    del value["kafka"]
    return {**value, **version_keys(found.kafka), "advice": advice}


def page(found: Diagnosis, request: CommandLine, width: int) -> Iterator[str | Text]:
    for disk in found.disks:
        share = (
            f" ({100 * disk.free_bytes / disk.total_bytes:.0f} %)" if disk.total_bytes else " (?)"
        )
        free = (
            "no limit known"
            if disk.free_bytes == sys.maxsize
            else f"{size(disk.free_bytes)} free{share}"
        )
        state = "shut down cleanly" if disk.clean_shutdown else "NOT shut down cleanly"
        yield bold(f"{disk.log_dir}  {size(disk.log_bytes)} of logs, {free}")
        yield f"  the broker was {state}; last cleaned: {_when(disk.cleaner_checkpoint_ms)}"
    yield wrapped(by_the_rules(found.kafka), width, indent=2)
    yield from listed("What happened", [*_happened(found)], width)
    yield ""
    yield bold("What can be freed")
    yield from (f"  {_gain(gain)}" for gain in found.gains)
    if not found.gains:
        if found.short_of_space:
            many = counted(found.short_of_space, "partition")
            yield f"  nothing here: the compaction of {many} needs more space than is free"
        else:
            yield f"  nothing: the topics' settings allow none, at {moment(found.now)}"
        yield from (wrapped(line, width, indent=2, hang=2) for line in _unfreed_lines(found))
    yield from listed(
        "Overdue for compaction", [_overdue_line(found.now, o) for o in found.overdue], width
    )
    if found.dead_cleaner:
        words = f"Is the cleaner dead? {found.dead_cleaner}"
        yield wrapped(words, width, style="yellow", indent=2, hang=2)
    yield from listed(
        "Held back by open transactions",
        [
            f"{h.topic}-{h.partition}  {size(h.held_bytes)}: {h.words}, last active "
            f"{_when(h.last_seen)}"
            for h in found.held_back
        ],
        width,
    )
    yield from listed(
        "Cleaner entries in the wrong log directory",
        [f"{m.topic}-{m.partition}: {m.words}" for m in found.misplaced],
        width,
    )
    # Group partitions by what is wrong. A cause that affects a whole directory is shown once.
    groups = alike(
        (t.topic, f"{t.topic}-{t.partition}", t.error or t.reason) for t in found.troubles
    )
    yield from listed(
        "Can't be cleaned in their current state",
        [f"{group.named(_FEW)}: {group.words('--json')}" for group in groups],
        width,
    )
    yield from listed(
        "Topics by bytes",
        [
            f"{t.topic}  {size(t.log_bytes)} in {counted(t.partitions, 'partition')}, "
            f"{t.policy or 'policy unknown'}"
            for t in found.topics
        ],
        width,
    )
    yield from census_lines(found, width)
    if found.advice:
        yield ""
        yield bold("What to run next")
    for advice in found.advice:
        yield f"  {typed(command(advice.arguments, request))}"
        yield wrapped(advice.why, width, style="dim")
    stopped = any(disk.is_full or not disk.clean_shutdown for disk in found.disks)
    if found.gains and stopped and not any(disk.read_only for disk in found.disks):
        yield "  Then start the broker with its settings unchanged."


def _happened(found: Diagnosis) -> Iterator[str]:
    for disk in found.disks:
        if disk.read_only:
            yield (
                f"{disk.log_dir} is mounted read-only: neither a broker nor Winnow can change "
                "anything there. If nobody mounted it so, the kernel did after an error of the "
                "disk, and its log says which (dmesg). Before a cleaning, mount it for writing"
            )
        elif disk.free_files == 0:
            yield (
                f"{disk.log_dir} is on a file system without a free inode: no file can be made "
                "there, although space is free"
            )
        elif disk.is_full:
            yield (
                f"{disk.log_dir} is on a full disk: {size(disk.free_bytes)} of "
                f"{size(disk.total_bytes)} are free"
            )
        if not disk.clean_shutdown:
            why = " A broker crashes when it can't write." if disk.is_full else ""
            yield (
                f"the broker crashed, was killed, or dropped {disk.log_dir} after an error: there "
                f"is no .kafka_cleanshutdown.{why} When it starts, it reads the end of each log "
                "and cuts off incomplete batches"
            )


def _unfreed_lines(found: Diagnosis) -> Iterator[str]:
    for one in found.unfreed[:_SHOWN]:
        many = counted(one.partitions, "partition")
        yield f"{one.topic}  {size(one.log_bytes)} in {many}: {one.reason}"
    if rest := found.unfreed[_SHOWN:]:
        total = sum(one.log_bytes for one in rest)
        yield f"{counted(len(rest), 'more topic')}  {size(total)}; `plan` gives each reason"


def _overdue_line(now: int, overdue: Overdue) -> str:
    since = (
        ""
        if overdue.dirty_since is None
        else f", dirty for {duration(max(now - overdue.dirty_since, 0))}"
    )
    return (
        f"{overdue.topic}-{overdue.partition}  {size(overdue.dirty_bytes)} dirty "
        f"({overdue.dirty_ratio:.0%}){since}"
    )


def _gain(gain: Gain) -> str:
    most = "up to " if gain.at_most else ""
    many = counted(gain.partitions, "partition")
    return f"{gain.what}  {most}{size(gain.freed_bytes)} in {many}, takes {roughly(gain.seconds)}"


def _when(ms: int | None) -> str:
    return "never" if ms is None else instant(ms)


def listed(title: str, lines: Sequence[str], width: int) -> Iterator[str | Text]:
    """Yield the title and the lines, wrapped to `width`; nothing if there are no lines."""
    if not lines:
        return
    yield ""
    yield bold(title)
    yield from (wrapped(line, width, indent=2, hang=2) for line in lines[:MOST])
    if len(lines) > MOST:
        yield Text(f"  and {len(lines) - MOST:,} more; --json has all", style="dim")


def bold(text: str) -> Text:
    return Text(printable(text), style="bold")


def census_lines(found: Diagnosis, width: int) -> Iterator[str | Text]:
    """Yield what `doctor --deep` found: data without a key, and tombstones. Nothing if no records
    were read.
    """
    if found.census is None:
        return
    census = [one for one in found.census if one.error is None]
    keyless = sorted(
        (one for one in census if one.keyless.records), key=lambda one: -one.keyless.bytes
    )
    yield from listed(
        "Records without a key, which compaction drops (S5.5)",
        [f"{_name(one)}  {_amount(one.keyless)}" for one in keyless],
        width,
    )
    if not keyless:
        yield ""
        yield f"No record without a key in {counted(len(census), 'partition')} of compacted topics"
    yield from _tombstones(census, width)
    yield from listed(
        "Could not be read",
        [f"{_name(one)}: {one.error}" for one in found.census if one.error],
        width,
    )


def _tombstones(census: list[Census], width: int) -> Iterator[str | Text]:
    ages = [_sum(column) for column in zip(*(one.tombstones for one in census), strict=True)]
    yield from listed(
        "Tombstones by age",
        [
            f"{age}  {_amount(many)}"
            for age, many in zip(TOMBSTONE_AGES, ages, strict=False)
            if many.records
        ],
        width,
    )
    horizons = (
        (
            _sum(one.horizon_come for one in census),
            "their delete horizon has passed: the next compaction drops them",
        ),
        (_sum(one.horizon_to_come for one in census), "their delete horizon is in the future"),
        (
            _sum(one.no_horizon for one in census),
            "no delete horizon yet: the next compaction sets it",
        ),
    )
    yield from listed(
        "Of these",
        [f"{_amount(many)}: {words}" for many, words in horizons if many.records],
        width,
    )
    partitions = sorted(census, key=lambda one: -_sum(one.tombstones).bytes)
    yield from listed(
        "Tombstones by partition",
        [
            f"{_name(one)}  {_amount(_sum(one.tombstones))}"
            for one in partitions
            if _sum(one.tombstones).records
        ],
        width,
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def _amount(many: Amount) -> str:
    return f"{counted(many.records, 'record')}, {size(many.bytes)}"


def _name(one: Census) -> str:
    return f"{one.topic}-{one.partition}"
