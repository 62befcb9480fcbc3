"""The table that a person reads in five seconds: largest gain first, then sums, then partitions
left unchanged and why.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from winnow.cleaning.result import PartitionResult, RunResult
from winnow.cli.out import Paper, Row, aligned, by_the_rules, fitted, wrapped
from winnow.cli.text.alike import alike
from winnow.cli.text.json_output import summed, totals
from winnow.wire.internal_topics import TRANSACTION_STATE
from winnow.words import counted, moment, one_line, size

FEW = 8
"""Partitions that need nothing get a line each up to this number. If there are more, they share
one.
"""
MOST = 20
"""Partitions with work that get a line each. If there are more, only the largest do."""
_NEEDED = 5
"""Columns that are never omitted: up to what is freed."""
HEAD = ("partition", "action", "before", "after", "freed", "segments", "dirty")
LEFT = (0, 1)
"""Columns of words. Columns of figures are right-aligned."""
LEAST_WHY = 24
"""Least width of the column for reasons. If there is less room, it is omitted."""


def show(result: RunResult, paper: Paper, *, everything: bool = False) -> None:
    """Print the table. Above MOST partitions, it has the largest ones and counts of the others,
    unless `everything` is wanted.
    """
    paper.page(_page(result, paper.width, everything=everything))


def _page(result: RunResult, width: int, *, everything: bool) -> Iterator[str | Text]:
    active = sorted(
        (p for p in result.partitions if p.acts), key=lambda p: (-p.gain, *_name_key(p))
    )
    idle = sorted((p for p in result.partitions if not (p.acts or p.failed)), key=_name_key)
    yield _title(result, acting=len(active))
    if result.verb == "plan" and result.partitions:
        yield wrapped(by_the_rules(result.kafka), width)
    few_idle: list[PartitionResult] = []
    if len(active) > MOST and not everything:
        yield from _largest(result, active, width)
    else:
        few_idle = idle if everything or len(idle) <= FEW else []
        yield from _lines(result, [*active, *few_idle], width)
        yield from _holders(active)
        yield from _settings([*active, *few_idle])
    unchanged = sum(p.segments_unchanged or 0 for p in active)
    if unchanged:
        loses = ("loses" if unchanged == 1 else "lose") if result.verb == "plan" else "lost"
        unread = sum(p.segments_unread or 0 for p in active)
        were = "was" if unread == 1 else "were"
        known = f" {unread} of them {were} not read: their keys were known." if unread else ""
        yield f"\n{counted(unchanged, 'segment')} {loses} nothing: not rewritten.{known}"
    yield from _deletes_more(active)
    yield from _space(result, active, width)
    if len(few_idle) < len(idle):
        need = "needs" if len(idle) == 1 else "need"
        yield f"{counted(len(idle), 'partition')} {need} no work."
    yield from _left_alone(result, width, everything=everything)


def summary(result: RunResult) -> str:
    """Return the run in one line, for a mail or a chat: `clean: 12 of 34 partitions, 1.2 GiB
    freed of 3.0 GiB; 2 left alone (tiered 2)`.
    """
    found = totals(result)
    freed = found["bytes_freed"]
    would = " would be" if result.verb == "plan" else ""
    gain = "unknown how much is" if freed is None else f"{size(freed)}{would}"
    many = counted(len(result.partitions), "partition")
    before = size(found["bytes_before"])
    parts = [f"{result.verb}: {found['with_work']:,} of {many}, {gain} freed of {before}"]
    codes = Counter(code for p in result.partitions if (code := p.code) is not None)
    if codes:
        why = ", ".join(f"{code} {count:,}" for code, count in codes.most_common())
        parts.append(f"{codes.total():,} left alone ({why})")
    return "; ".join(parts)


def _largest(
    result: RunResult, active: Sequence[PartitionResult], width: int
) -> Iterator[str | Text]:
    yield from _lines(result, active[:MOST], width, with_reasons=False)
    yield f"{len(active) - MOST:,} more partitions have a line with --all."
    yield from _reasons(active)
    yield from _holders(active[:MOST])
    if result.verb == "plan":
        yield "\nThe settings of each topic, and where they come from: --all, or `explain`."


def _space(
    result: RunResult, active: Sequence[PartitionResult], width: int
) -> Iterator[str | Text]:
    if active and result.verb == "plan" and result.peak_extra_bytes is not None:
        yield f"\nExtra space needed: up to {size(result.peak_extra_bytes)}."
    kept = sum(p.kept_bytes or 0 for p in result.partitions)
    if kept:
        yield (
            f"{size(kept)} of it is kept: `recover --undo {result.run_id}` restores it, "
            f"`recover --purge {result.run_id}` frees it."
        )
    replicas = _has_replicas(result)
    for p in sorted((p for p in result.partitions if p.quarantined_bytes), key=_name_key):
        yield f"\nQuarantined: {_name(p, replicas=replicas)}"
        yield wrapped(p.reason, width, break_on_hyphens=True)


def _left_alone(result: RunResult, width: int, *, everything: bool) -> Iterator[str | Text]:
    troubled = sorted((p for p in result.partitions if p.failed), key=_name_key)
    if troubled:
        yield f"\nLeft alone: {counted(len(troubled), 'partition')}"
    replicas = _has_replicas(result)
    groups = alike(
        [(p.topic, _name(p, replicas=replicas), p.why) for p in troubled],
        together=not everything and len(troubled) > FEW,
    )
    shown = groups if everything else groups[:FEW]
    for group in shown:
        many = f"{len(group.names):,} partitions: " if len(group.names) > FEW else ""
        names = f"{many}{group.named(FEW)}"
        for part in textwrap.wrap(names, width - 2, break_on_hyphens=False):
            yield Text(f"  {part}", style="yellow")
        yield wrapped(group.words("--all"), width, break_on_hyphens=True)
    if len(shown) < len(groups):
        yield f"  {counted(len(groups) - len(shown), 'more reason')}; --all shows each."


def _reasons(partitions: Sequence[PartitionResult]) -> Iterator[Text]:
    """Yield how many partitions have the same reason, without its numbers."""
    yield Text("\nReasons", style="bold")
    found = Counter((p.rule, _without_numbers(p.reason)) for p in partitions)
    most = found.most_common(FEW)
    for (rule, words), count in most:
        yield Text(one_line(f"  {count:>7,}  {words} ({rule})"))
    if len(found) > FEW:
        left = found.total() - sum(count for _, count in most)
        yield Text(f"  {left:>7,}  with other reasons; --all shows each")


def _without_numbers(reason: str) -> str:
    """Return the first clause, with `N` for each number and size. Names of settings are kept."""
    clause = re.split(r"; | \(", reason, maxsplit=1)[0]
    return re.sub(r"\b[0-9][0-9.,:TZ-]*( (B|[KMGT]iB|ms|s|min|h|days?))?(?![\w])", "N", clause)


def _title(result: RunResult, *, acting: int) -> str:
    planned = result.verb == "plan"
    if not result.partitions:
        return "No partition matches the command."
    what = (
        "has work to do" if planned and acting == 1 else "have work to do" if planned else "cleaned"
    )
    return (
        f"{acting:,} of {counted(len(result.partitions), 'partition')} {what}, at "
        f"{moment(result.now)}"
    )


def _lines(
    result: RunResult, shown: Sequence[PartitionResult], width: int, *, with_reasons: bool = True
) -> Iterator[Text]:
    """Yield header, partitions and sums. In a plan, reasons have their own lines. Otherwise they
    are cut to the space available.
    """
    if not shown:
        return
    replicas = _has_replicas(result)
    rows = [_row(p, replicas=replicas) for p in shown]
    head, *lines, sums = aligned(
        fitted([HEAD, *rows, _sums(result)], width, needed=_NEEDED), words=LEFT
    )
    left = width - len(head) - 2
    inline = result.verb != "plan" and left >= LEAST_WHY
    yield Text(f"{head}  why" if inline else head, style="bold")
    for p, line in zip(shown, lines, strict=True):
        style = "" if p.acts else "dim"
        if inline:
            why = textwrap.shorten(p.reason, left, placeholder="...")
            yield Text(f"{line.ljust(len(head))}  {why}".rstrip(), style=style)
            continue
        yield Text(line, style=style)
        if result.verb == "plan" and with_reasons:
            yield wrapped(p.reason, width, style="dim", break_on_hyphens=True)
    yield Text(sums, style="bold")


def _holders(partitions: Sequence[PartitionResult]) -> Iterator[Text]:
    """For Kafka's own topics, yield whose records fill them."""
    held = [p for p in partitions if p.holders]
    if held:
        yield Text("\nWho fills Kafka's own topics", style="bold")
    for p in held:
        what = "transactional ids" if p.topic == TRANSACTION_STATE else "groups"
        total = "many" if p.holders_total is None else f"{p.holders_total:,}"
        most = (
            f"the largest {len(p.holders)} of {total} {what}"
            if p.holders_total != len(p.holders)
            else f"all {what}"
        )
        yield Text(f"  {one_line(p.name)}, {most}")
        for holder in p.holders:
            records = _change(f"{holder.records_before:,}", holder.records_after, "{:,}".format)
            sizes = _change(size(holder.bytes_before), holder.bytes_after, size)
            yield Text(f"      {one_line(holder.name)}  {records} records, {sizes}", style="dim")


def _change(before: str, after: int | None, shown: Callable[[int], str]) -> str:
    return before if after is None else f"{before} -> {shown(after)}"


def _settings(partitions: Sequence[PartitionResult]) -> Iterator[Text]:
    """For a plan, yield the settings by topic that were set explicitly and where, then the source
    of the others.
    """
    topics = {p.topic: p.settings for p in partitions if p.settings}
    if not topics:
        return
    yield Text("\nSettings, and where they come from", style="bold")
    for topic, settings in sorted(topics.items()):
        yield Text(f"  {topic}")
        for s in settings:
            if not s.is_default and s.key != "internal.segment.bytes":  # shown as segment.bytes
                yield Text(f"      {s.key}={s.value}  {s.source}", style="dim")
    defaults = sorted({s.source for settings in topics.values() for s in settings if s.is_default})
    yield Text("  everything else", style="dim")
    yield Text(f"      {'; '.join(defaults)}", style="dim")


def _deletes_more(partitions: Sequence[PartitionResult]) -> Iterator[Text]:
    """Yield, by topic, the options that delete more than its own settings (decision 47)."""
    topics = {p.topic: p.deletes_more for p in partitions if p.deletes_more}
    if topics:
        yield Text("\nOptions delete more than the topics' own settings", style="bold yellow")
    for topic, settings in sorted(topics.items()):
        yield Text(f"  {one_line(topic)}: {', '.join(settings)}")


def _has_replicas(result: RunResult) -> bool:
    """Return whether directories of several brokers were given that have partitions in common."""
    return len({_name_key(p)[:2] for p in result.partitions}) < len(result.partitions)


def _name(p: PartitionResult, *, replicas: bool) -> str:
    return one_line(f"{p.log_dir}/{p.name}" if replicas else p.name)


def _row(p: PartitionResult, *, replicas: bool) -> Row:
    return (
        _name(p, replicas=replicas),
        "+".join(p.actions) if p.acts else "-",
        size(p.bytes_before),
        size(p.bytes_after),
        _freed(p.bytes_before, p.bytes_after),
        _segments(p.segments_before, p.segments_after),
        "" if p.dirty_ratio is None else f"{p.dirty_ratio:.2f}",
    )


def _sums(result: RunResult) -> Row:
    """Return sums over all partitions. A sum with an unknown part is unknown."""
    known = [p for p in result.partitions if p.bytes_before is not None]
    before = sum(p.bytes_before or 0 for p in known)
    after = summed(p.bytes_after if p.acts else p.bytes_before for p in known)
    segments = sum(p.segments_before or 0 for p in known)
    segments_after = summed(p.segments_after if p.acts else p.segments_before for p in known)
    return (
        f"all {len(result.partitions):,}",
        "",
        size(before),
        size(after),
        _freed(before, after),
        _segments(segments, segments_after),
        "",
    )


def _name_key(p: PartitionResult) -> tuple[str, int, str]:
    return (p.topic, p.partition, p.log_dir)


def _freed(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return "?"
    return f"{100 * (before - after) / before:.0f} %" if before else "0 %"


def _segments(before: int | None, after: int | None) -> str:
    if before is None:
        return "?"
    return f"{before:,} -> {'?' if after is None else f'{after:,}'}"
