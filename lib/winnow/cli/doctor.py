"""The verb `doctor`: one page on what is wrong with log directories and which command helps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from winnow.cleaning.result import TOMBSTONE_AGES
from winnow.cli.call import WORK, Call
from winnow.cli.doctor_metrics import DoctorOutlet
from winnow.cli.inputs import check_log_dirs, now_of, parse_settings
from winnow.cli.options import OTHER, CommandLine
from winnow.cli.out import (
    Line,
    Paragraph,
    Styled,
    by_the_rules,
    fields_of,
    item,
    section,
    tell_notes,
    version_keys,
)
from winnow.cli.outlets import check_outlets, warn_of_typed_passwords
from winnow.cli.text import held
from winnow.cli.text.alike import alike
from winnow.cli.text.disk_use import disk_use
from winnow.cli.text.doctor_summary import free_space, growth_words, summary
from winnow.cli.text.findings import name_of, short_of_space
from winnow.cli.text.full_disk import first_steps
from winnow.cli.text.next_command import command, typed
from winnow.cli.text.one_page import last_step, one_page
from winnow.cli.text.start import shown_reasons, start_section
from winnow.logdir.torn import torn
from winnow.runtime.no_space import FREE_INODES
from winnow.start.words import starts_to_json
from winnow.verbs.erase.values import Amount
from winnow.words import counted, duration, first_few, instant, moment, roughly, size

if TYPE_CHECKING:
    from winnow.metrics.growth import Growth
    from winnow.verbs.doctor.values import Census, Diagnosis, Overdue, Topic, Trouble


_SHOWN = 8
"""Topics that are named one by one."""
MOST = 10
"""Lines in each list on the page. --json has all."""
_FEW = 3
"""Partitions with the same trouble that are named."""
_HORIZONS = {
    "horizon_come": "their delete horizon has passed: the next compaction drops them",
    "horizon_to_come": "their delete horizon is in the future",
    "no_horizon": "no delete horizon yet: the next compaction sets it",
}
"""By the name of an amount of tombstones in `Census`, what will become of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    deep: bool = OTHER.switch(
        "Also read all records of compacted topics: report records without a key, and tombstones."
    )


def run_doctor(call: Call, own: DoctorOptions) -> int:
    request = call.request
    check_outlets(request)
    warn_of_typed_passwords(request)
    call.outlets = outlet = DoctorOutlet(request)
    call.now = now_of(request)
    settings = parse_settings(request)
    check_log_dirs(request.log_dirs)
    with call.spark() as spark:
        from winnow import api  # noqa: PLC0415 - it loads numba

        with call.progress() as progress:
            found = api.doctor(
                spark,
                list(request.log_dirs),
                settings=settings,
                topics=tuple(request.topics),
                now=call.now,
                deep=own.deep,
                progress=progress,
            )
        tell_notes(found.notes)
        growth = outlet.ended(found)
        shown = page if request.all else one_page
        lines = [summary(found, growth)] if request.summary else shown(found, request, growth)
        call.answer(lambda: to_json(found, request, growth), lines)
    if request.detailed_exitcode and found.exit_code == 0 and found.attention:
        return WORK
    return found.exit_code


def to_json(
    found: Diagnosis, request: CommandLine, growth: Sequence[Growth] = ()
) -> dict[str, Any]:
    advice = [
        {"command": command(one.arguments, request, one.log_dirs), "why": one.why}
        for one in found.advice
    ]
    return {
        **fields_of(found, "kafka", "starts", "zookeeper"),
        **version_keys(found.kafka),
        "first": list(first_steps(found.disks, found.starts)),
        "advice": advice,
        "starts": starts_to_json(found.starts),
        "growth": [asdict(g) for g in growth],
    }


def page(found: Diagnosis, request: CommandLine, growth: Sequence[Growth] = ()) -> Iterator[Line]:
    """Yield the page of `--all`."""
    for disk in found.disks:
        clean = "was shut down cleanly" if disk.clean_shutdown else "was NOT shut down cleanly"
        state = "is running" if disk.broker_runs else clean
        cleaned = f"the broker {state}; last cleaned: {_when(disk.cleaner_checkpoint_ms)}"
        free = f"{free_space(disk)}{growth_words(disk, growth)}"
        yield Styled(f"{disk.log_dir}  {size(disk.log_bytes)} of logs, {free}", "bold")
        yield "  of a controller" if disk.is_of_controller else f"  {cleaned}"
    yield Paragraph(by_the_rules(found.kafka), indent=2)
    yield from listed("First", first_steps(found.disks, found.starts))
    yield from listed("What happened", _happened(found))
    yield from start_section(found.starts)
    damaged = [trouble for trouble in found.troubles if trouble.error is not None]
    yield from listed("Damaged, or failed", _grouped(damaged))
    for use in found.space:
        yield from disk_use(use)
    yield from section("What can be freed", _gains(found))
    yield from listed(
        "Overdue for compaction", (_overdue_line(found.now, o) for o in found.overdue)
    )
    if found.dead_cleaner:
        yield item(f"Is the cleaner dead? {found.dead_cleaner}", "yellow")
    yield from listed(
        "Due for hours, while the cleaner finished other partitions", _passed_over(found)
    )
    yield from listed("Past retention, and not deleted by the broker", _expired(found))
    yield from listed("Prepared for `commit`", _prepared(found))
    yield from held.sections(found)
    yield from listed(
        "Held back by open transactions",
        (
            f"{h.topic}-{h.partition}  {size(h.held_bytes)}: {h.words}, last active "
            f"{_when(h.last_seen)}"
            for h in found.held_back
        ),
    )
    yield from listed(
        "Cleaner entries in the wrong log directory",
        (f"{m.topic}-{m.partition}: {m.words}" for m in found.misplaced),
    )
    said = shown_reasons(found.starts)
    yield from listed("In the broker's way", [one for one in found.strangers if one not in said])
    troubles = [trouble for trouble in found.troubles if trouble.error is None]
    yield from listed("Can't be cleaned in their current state", _grouped(troubles))
    yield from listed(
        "Topics by bytes",
        map(_topic, found.topics),
    )
    if found.census is not None:
        yield from _census(found.census)
    yield from section("What to run next", _next(found, request))


def _grouped(troubles: Iterable[Trouble]) -> Iterator[str]:
    """Group partitions by what is wrong. A cause of a whole directory is shown once."""
    named = ((t.topic, name_of(t), t.error or t.reason) for t in troubles)
    groups = alike(dict.fromkeys(named))  # a partition in two directories is there twice
    return (f"{first_few(group.names, _FEW)}: {group.words('--json')}" for group in groups)


def _prepared(found: Diagnosis) -> Iterator[str]:
    """Yield how much is prepared, and which preparations no longer hold."""
    holds = [p for p in found.preparations if p.dropped is None]
    if holds:
        oldest = min(p.prepared_at_ms or found.now for p in holds)
        total = size(sum(p.bytes for p in holds))
        yield f"{counted(len(holds), 'partition')}, {total}, the oldest of {moment(oldest)}"
    named = ((p.topic, name_of(p), p.dropped) for p in found.preparations if p.dropped)
    for group in alike(dict.fromkeys(named)):
        yield f"{first_few(group.names, _FEW)} no longer holds: {group.words('--json')}"


def _gains(found: Diagnosis) -> Iterator[Line]:
    for gain in found.gains:
        most = "up to " if gain.at_most else ""
        many = counted(gain.partitions, "partition")
        yield (f"  {gain.what}  {most}{found.freed(gain)} in {many}, takes {roughly(gain.seconds)}")
    if found.gains:
        return
    if found.short_of_space:
        yield f"  nothing here: {short_of_space(found)}"
    else:
        yield item(f"nothing: {held.why_nothing(found)}, at {moment(found.now)}")
    for one in found.unfreed[:_SHOWN]:
        many = counted(one.partitions, "partition")
        yield item(f"{one.topic}  {size(one.log_bytes)} in {many}: {one.reason}")
    if rest := found.unfreed[_SHOWN:]:
        total = sum(one.log_bytes for one in rest)
        yield item(f"{counted(len(rest), 'more topic')}  {size(total)}; `plan` gives each reason")


def _next(found: Diagnosis, request: CommandLine) -> Iterator[Line]:
    for advice in found.advice:
        yield f"  {typed(command(advice.arguments, request, advice.log_dirs))}"
        yield Paragraph(advice.why, style="dim")
    if found.starts and not any(disk.broker_runs for disk in found.disks):
        yield f"  {last_step(found)}"


def _happened(found: Diagnosis) -> Iterator[str]:
    for disk in found.disks:
        if disk.read_only:
            yield (
                f"{disk.log_dir} is mounted read-only: neither a broker nor Winnow can change "
                "anything there. If nobody mounted it so, the kernel did after an error of the "
                "disk, and its log says which (dmesg). Before a cleaning, mount it for writing"
            )
        elif disk.lacks_inodes:
            inodes = counted(disk.free_files or 0, "free inode")
            yield (
                f"{disk.log_dir} is on a file system with {inodes}: no more files can be made "
                f"there, although {size(disk.free_bytes)} are free. {FREE_INODES}"
            )
        elif disk.is_full:
            yield (
                f"{disk.log_dir} is on a full disk: {size(disk.free_bytes)} of "
                f"{size(disk.total_bytes)} are free"
            )
        if disk.behind:
            yield torn(disk.log_dir, disk.behind)
        elif disk.has_crashed:
            why = " A broker crashes when it can't write." if disk.is_full else ""
            yield (
                f"the broker crashed, was killed, or dropped {disk.log_dir} after an error: there "
                f"is no .kafka_cleanshutdown.{why} When it starts, it reads the end of each log "
                "and cuts off incomplete batches"
            )


def _topic(topic: Topic) -> str:
    counted_ones = topic.partitions - topic.uncounted
    known = f"{size(topic.log_bytes)} in {counted(counted_ones, 'partition')}"
    unknown = f"{counted(topic.uncounted, 'partition')} not counted"
    parts = [known] * bool(counted_ones) + [unknown] * bool(topic.uncounted)
    return f"{topic.topic}  {', '.join(parts)}, {topic.policy or 'policy unknown'}"


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


def _passed_over(found: Diagnosis) -> Iterator[str]:
    for o in found.overdue:
        if o.passed_over:
            since = instant(o.due_since or found.now)
            cleaned = "" if o.last_cleaned is None else f", last cleaned by {_when(o.last_cleaned)}"
            yield (
                f"{o.topic}-{o.partition}  {size(o.dirty_bytes)} dirty, due since {since}"
                f"{cleaned}. The cleaner has marked it uncleanable, or is too slow: look for the "
                "partition in log-cleaner.log, and run `verify`"
            )


def _expired(found: Diagnosis) -> Iterator[str]:
    from winnow.verbs.doctor.attention import EXPIRED_LATE_MS  # noqa: PLC0415 - it loads numpy

    for expired in found.expired:
        if expired.since is not None and found.now - expired.since > EXPIRED_LATE_MS:
            yield (
                f"{expired.topic}-{expired.partition}  {size(expired.log_bytes)} in "
                f"{counted(expired.segments, 'segment')}, since {instant(expired.since)}"
            )


def _when(ms: int | None) -> str:
    return "never" if ms is None else instant(ms)


def listed(title: str, lines: Iterable[str]) -> Iterator[Line]:
    """Yield the title and the first lines; nothing if there are no lines."""
    lines = [*lines]
    more = [Styled(f"  and {len(lines) - MOST:,} more; --json has all", "dim")]
    shown = [*map(item, lines[:MOST]), *(more if len(lines) > MOST else ())]
    yield from section(title, shown)


def _census(census: Sequence[Census]) -> Iterator[Line]:
    """Yield what `doctor --deep` found: data without a key, and tombstones."""
    read = [one for one in census if one.error is None]

    def by_partition(amount: Callable[[Census], Amount]) -> list[str]:
        """Return a line for each partition with such records, most bytes first."""
        found = sorted(read, key=lambda one: -amount(one).bytes)
        return [f"{name_of(one)}  {_amount(amount(one))}" for one in found if amount(one).records]

    keyless = by_partition(lambda one: one.keyless)
    yield from listed("Records without a key, which compaction drops (S5.5)", keyless)
    if not keyless:
        yield ""
        yield f"No record without a key in {counted(len(read), 'partition')} of compacted topics"
    ages = zip(TOMBSTONE_AGES, zip(*(one.tombstones for one in read), strict=True), strict=False)
    yield from listed(
        "Tombstones by age",
        (f"{age}  {_amount(many)}" for age, column in ages if (many := _sum(column)).records),
    )
    of_these = ((_sum(map(attrgetter(name), read)), words) for name, words in _HORIZONS.items())
    yield from listed(
        "Of these", (f"{_amount(many)}: {words}" for many, words in of_these if many.records)
    )
    yield from listed("Tombstones by partition", by_partition(lambda one: _sum(one.tombstones)))
    yield from listed(
        "Could not be read", (f"{name_of(one)}: {one.error}" for one in census if one.error)
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def _amount(many: Amount) -> str:
    return f"{counted(many.records, 'record')}, {size(many.bytes)}"
