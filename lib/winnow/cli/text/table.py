"""The table that a person reads in five seconds: largest gain first, then sums, then partitions
left unchanged and why.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from winnow.cleaning.result import PartitionResult, RunResult
from winnow.cli.out import Line, Paragraph, Row, Styled, aligned, by_the_rules, fitted, section
from winnow.cli.text.alike import alike
from winnow.cli.text.json_output import summed, totals
from winnow.cli.text.start import harmful_starts
from winnow.wire.internal_topics import TRANSACTION_STATE
from winnow.words import counted, first_few, moment, one_line, size

FEW = 8
"""Partitions that need nothing get a line each up to this number. If there are more, they share
one.
"""
MOST = 20
"""Partitions with work that get a line each. If there are more, only the largest do."""
_NEEDED = 5
"""Columns that are never omitted: up to what is freed."""
LEAST_WHY = 24
"""Least width of the column for reasons. If there is less room, it is omitted."""
_CUT = "..."


def page(
    result: RunResult, width: int, *, everything: bool = False, whole_names: bool = False
) -> Iterator[Line]:
    """Yield the table. Above MOST partitions, it has the largest ones and counts of the others,
    unless `everything` is wanted. `whole_names`: do not shorten names to fit `width`.
    """
    lines = partial(_lines, result, width=width, whole=everything or whole_names)
    active = sorted(
        (p for p in result.partitions if p.acts), key=lambda p: (-p.gain, *_name_key(p))
    )
    idle = sorted((p for p in result.partitions if not (p.acts or p.failed)), key=_name_key)
    no_work = len(idle) - result.cleaner_off
    yield _title(result, acting=len(active))
    if result.verb == "plan" and result.partitions:
        yield Paragraph(by_the_rules(result.kafka))
    few_idle: list[PartitionResult] = []
    if len(active) > MOST and not everything:
        yield from lines(active[:MOST], with_reasons=False)
        yield f"{len(active) - MOST:,} more partitions have a line with --all."
        yield from section("Reasons", _reasons(active))
        yield from section("Who fills Kafka's own topics", _holders(active[:MOST]))
        if result.verb == "plan":
            yield ""
            yield "The settings of each topic, and where they come from: --all, or `explain`."
    else:
        few_idle = idle if everything or len(idle) <= FEW else []
        yield from lines([*active, *few_idle])
        yield from section("Who fills Kafka's own topics", _holders(active))
        yield from section("Settings, and where they come from", _settings([*active, *few_idle]))
    if unchanged := sum(p.segments_unchanged or 0 for p in active):
        loses = ("loses" if unchanged == 1 else "lose") if result.verb == "plan" else "lost"
        unread = sum(p.segments_unread or 0 for p in active)
        were = "was" if unread == 1 else "were"
        known = f" {unread} of them {were} not read: their keys were known." if unread else ""
        yield ""
        yield f"{counted(unchanged, 'segment')} {loses} nothing: not rewritten.{known}"
    yield from section(
        "Options delete more than the topics' own settings",
        _deletes_more(active),
        style="bold yellow",
    )
    yield from _space(result, active)
    if no_work and len(few_idle) < len(idle):
        need = "needs" if no_work == 1 else "need"
        yield f"{counted(no_work, 'partition')} {need} no work."
    if left := _cleaner_off(result):
        yield Styled(f"{left}.", "bold yellow")
    yield from _left_alone(result, width, everything=everything)
    yield from harmful_starts(result.starts, title="Do not start the broker now")


def summary(result: RunResult) -> str:
    """Return the run in one line, for a mail or a chat: `clean: 12 of 34 partitions, 1.2 GiB
    freed of 3.0 GiB; 2 left alone (tiered 2)`.
    """
    found = totals(result)
    freed = found["bytes_freed"]
    would = " would be" if result.verb in {"plan", "prepare"} else ""
    many = counted(len(result.partitions), "partition")
    before = size(found["bytes_before"])
    if freed is None:
        estimate = " (use --estimate)" if result.verb == "plan" else ""
        gain = f"savings of {before} unknown{estimate}"
    else:
        more = f", {size(-freed)} more used" if freed < 0 else ""
        gain = f"{size(max(freed, 0))}{would} freed of {before}{more}"
    parts = [f"{result.verb}: {found['with_work']:,} of {many}, {gain}"]
    if kept := found["bytes_kept"]:
        parts.append(f"{size(kept)} kept until `recover --purge`")
    codes = Counter(code for p in result.partitions if (code := p.code) is not None)
    if codes:
        why = ", ".join(f"{code} {count:,}" for code, count in codes.most_common())
        parts.append(f"{codes.total():,} left alone ({why})")
    if left := _cleaner_off(result, short=True):
        parts.append(left)
    return "; ".join(parts)


def _cleaner_off(result: RunResult, *, short: bool = False) -> str:
    """Return how many partitions were left because the cleaner is off; empty if there are none."""
    if not result.cleaner_off:
        return ""
    many = counted(result.cleaner_off, "partition")
    why = "not cleaned because log.cleaner.enable is false (see --replace-cleaner)"
    return f"{result.cleaner_off:,} {why}" if short else f"{many} {why}"


def _space(result: RunResult, active: Sequence[PartitionResult]) -> Iterator[Line]:
    if active and result.verb == "plan" and result.peak_extra_bytes is not None:
        yield ""
        yield f"Extra space needed: up to {size(result.peak_extra_bytes)}."
    if kept := sum(p.kept_bytes or 0 for p in result.partitions):
        yield (
            f"{size(kept)} is kept and not free yet: `recover --undo {result.run_id}` restores it, "
            f"`recover --purge {result.run_id}` frees it."
        )
    name = _names_of(result)
    for p in sorted((p for p in result.partitions if p.quarantined_bytes), key=_name_key):
        yield ""
        yield f"Quarantined: {name(p)}"
        yield Paragraph(p.reason, break_on_hyphens=True)


def _left_alone(result: RunResult, width: int, *, everything: bool) -> Iterator[Line]:
    # What is damaged, or has failed, comes first.
    troubled = sorted(
        (p for p in result.partitions if p.failed), key=lambda p: (p.error is None, _name_key(p))
    )
    if troubled:
        yield ""
        yield f"Left alone: {counted(len(troubled), 'partition')}"
    name = _names_of(result)
    groups = alike(
        [(p.topic, name(p), p.why) for p in troubled],
        together=not everything and len(troubled) > FEW,
    )
    shown = groups if everything else groups[:FEW]
    for group in shown:
        many = f"{len(group.names):,} partitions: " if len(group.names) > FEW else ""
        names = f"{many}{first_few(group.names, FEW)}"
        for part in textwrap.wrap(names, width - 2, break_on_hyphens=False):
            yield Styled(f"  {part}", "yellow")
        yield Paragraph(group.words("--all"), break_on_hyphens=True)
    if len(shown) < len(groups):
        yield f"  {counted(len(groups) - len(shown), 'more reason')}; --all shows each."


def _reasons(partitions: Sequence[PartitionResult]) -> Iterator[str]:
    """Yield how many partitions have the same reason, without its numbers."""
    found = Counter((p.rule, _without_numbers(p.reason)) for p in partitions)
    most = found.most_common(FEW)
    for (rule, words), count in most:
        yield f"  {count:>7,}  {words} ({rule})"
    if len(found) > FEW:
        left = found.total() - sum(count for _, count in most)
        yield f"  {left:>7,}  with other reasons; --all shows each"


def _without_numbers(reason: str) -> str:
    """Return the first clause, with `N` for each number and size. Names of settings are kept."""
    clause = re.split(r"; | \(", reason, maxsplit=1)[0]
    return re.sub(r"\b[0-9][0-9.,:TZ-]*( (B|[KMGT]iB|ms|s|min|h|days?))?(?![\w])", "N", clause)


def _title(result: RunResult, *, acting: int) -> str:
    planned = result.verb == "plan"
    if not result.partitions:
        nothing = result.verb == "commit"
        return "Nothing is prepared." if nothing else "No partition matches the command."
    what = (
        "has work to do"
        if planned and acting == 1
        else "have work to do"
        if planned
        else "prepared"
        if result.verb == "prepare"
        else "cleaned"
    )
    return (
        f"{acting:,} of {counted(len(result.partitions), 'partition')} {what}, at "
        f"{moment(result.now)}"
    )


def _lines(
    result: RunResult,
    shown: Sequence[PartitionResult],
    *,
    width: int,
    whole: bool,
    with_reasons: bool = True,
) -> Iterator[Line]:
    """Yield header, partitions and sums. In a plan, reasons have their own lines. Otherwise they
    are cut to the space available, or left out if several rows would show the same cut-off text.
    """
    if not shown:
        return
    name = _names_of(result)
    rows = [*(_row(p, name(p)) for p in shown), _sums(result)]
    head, *lines, sums = aligned(
        fitted(rows, width, needed=_NEEDED, whole=whole), "partition", "action"
    )
    left = width - len(head) - 2
    reasons = [textwrap.shorten(p.reason, max(left, LEAST_WHY), placeholder=_CUT) for p in shown]
    cut = [reason for reason in reasons if reason.endswith(_CUT)]
    inline = result.verb != "plan" and left >= LEAST_WHY and len({*cut}) == len(cut)
    yield Styled(f"{head}  why" if inline else head, "bold")
    for p, line, reason in zip(shown, lines, reasons, strict=True):
        style = "" if p.acts else "dim"
        if inline:
            yield Styled(f"{line.ljust(len(head))}  {reason}".rstrip(), style=style)
            continue
        yield Styled(line, style=style)
        if result.verb == "plan" and with_reasons:
            yield Paragraph(p.reason, style="dim", break_on_hyphens=True)
    yield Styled(sums, "bold")


def _holders(partitions: Sequence[PartitionResult]) -> Iterator[Line]:
    """For Kafka's own topics, yield whose records fill them."""
    for p in partitions:
        if not p.holders:
            continue
        what = "transactional ids" if p.topic == TRANSACTION_STATE else "groups"
        total = "many" if p.holders_total is None else f"{p.holders_total:,}"
        most = (
            f"the largest {len(p.holders)} of {total} {what}"
            if p.holders_total != len(p.holders)
            else f"all {what}"
        )
        yield f"  {p.name}, {most}"
        for holder in p.holders:
            records = _change(f"{holder.records_before:,}", holder.records_after, "{:,}".format)
            sizes = _change(size(holder.bytes_before), holder.bytes_after, size)
            yield Styled(f"      {holder.name}  {records} records, {sizes}", "dim")


def _change(before: str, after: int | None, shown: Callable[[int], str]) -> str:
    return before if after is None else f"{before} -> {shown(after)}"


def _settings(partitions: Sequence[PartitionResult]) -> Iterator[Line]:
    """For a plan, yield the settings by topic that were set explicitly and where, then the source
    of the others.
    """
    topics = {p.topic: p.settings for p in partitions if p.settings}
    if not topics:
        return
    for topic, settings in sorted(topics.items()):
        yield f"  {topic}"
        for s in settings:
            if not s.is_default and s.key != "internal.segment.bytes":  # shown as segment.bytes
                yield Styled(f"      {s.key}={s.value}  {s.source}", "dim")
    defaults = sorted({s.source for settings in topics.values() for s in settings if s.is_default})
    yield Styled("  everything else", "dim")
    yield Styled(f"      {'; '.join(defaults)}", "dim")


def _deletes_more(partitions: Sequence[PartitionResult]) -> Iterator[str]:
    """Yield, by topic, the options that delete more than its own settings (decision 47)."""
    topics = {p.topic: p.deletes_more for p in partitions if p.deletes_more}
    for topic, settings in sorted(topics.items()):
        yield f"  {topic}: {', '.join(settings)}"


def _names_of(result: RunResult) -> Callable[[PartitionResult], str]:
    """Return what names a partition: with its log directory if directories of several brokers were
    given that have partitions in common.
    """
    replicas = len({_name_key(p)[:2] for p in result.partitions}) < len(result.partitions)
    return lambda p: one_line(f"{p.log_dir}/{p.name}" if replicas else p.name)


def _row(p: PartitionResult, name: str) -> Row:
    return {
        "partition": name,
        "action": "+".join(p.actions) if p.acts else "-",
        "before": size(p.bytes_before),
        "after": size(p.bytes_after),
        "freed": _freed(p.bytes_before, _free(p)),
        "segments": _segments(p.segments_before, p.segments_after),
        "dirty": "" if p.dirty_ratio is None else f"{p.dirty_ratio:.2f}",
    }


def _sums(result: RunResult) -> Row:
    """Return sums over all partitions. A sum with an unknown part is unknown."""
    known = [p for p in result.partitions if p.bytes_before is not None]
    before = sum(p.bytes_before or 0 for p in known)
    after = summed(p.bytes_after if p.acts else p.bytes_before for p in known)
    freed = summed(_free(p) if p.acts else 0 for p in known)
    segments = sum(p.segments_before or 0 for p in known)
    segments_after = summed(p.segments_after if p.acts else p.segments_before for p in known)
    return {
        "partition": f"all {len(result.partitions):,}",
        "action": "",
        "before": size(before),
        "after": size(after),
        "freed": _freed(before, freed),
        "segments": _segments(segments, segments_after),
        "dirty": "",
    }


def _name_key(p: PartitionResult) -> tuple[str, int, str]:
    return (p.topic, p.partition, p.log_dir)


def _free(p: PartitionResult) -> int | None:
    """Return what a partition frees: nothing if the run keeps what it replaces."""
    return 0 if p.kept_bytes else p.freed_bytes


def _freed(before: int | None, freed: int | None) -> str:
    if before is None or freed is None:
        return "?"
    return f"{100 * freed / before:.0f} %" if before else "0 %"


def _segments(before: int | None, after: int | None) -> str:
    if before is None:
        return "?"
    return f"{before:,} -> {'?' if after is None else f'{after:,}'}"
