"""What `doctor` found besides what happened: a line of 80 columns for each kind of finding.
The most urgent is first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from winnow.cli.out import by_the_rules
from winnow.cli.text.alike import alike
from winnow.cli.text.disk_use import NAMES
from winnow.cli.text.narrow import COLUMNS, Names, rows
from winnow.verbs.doctor.space import SpaceKind
from winnow.verbs.doctor.values import NO_POLICY
from winnow.words import counted, duration, size

if TYPE_CHECKING:
    from winnow.verbs.doctor.values import Diagnosis

_FEW = 24
"""Columns for the names of partitions."""
_MOST_GROUPS = 4
"""Reasons that have a line each."""
_NAMED_KINDS = 3
_ALWAYS = (SpaceKind.FUTURE, SpaceKind.DELETE, SpaceKind.STRAY)
_IN_ZOOKEEPER = "topic settings are in ZooKeeper: `get /config/topics/TOPIC`; see `--topic-configs`"
_HELD = {
    "high-watermark": "kept by lost high watermarks",
    "uncommitted": "not committed, though the broker runs",
    "future-timestamp": "held by timestamps in the future",
    "old-timestamps": "deleted by old timestamps",
}


class _Named(Protocol):
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


def names_in(found: Diagnosis) -> Iterator[str]:
    """Yield the names of all topics and partitions of a diagnosis."""
    yield from (topic.topic for topic in found.topics)
    several: Iterable[Sequence[_Named]] = (
        *(found.troubles, found.overdue, found.expired, found.held, found.held_back),
        *(found.preparations, found.misplaced, found.census or ()),
    )
    for partitions in several:
        yield from map(name_of, partitions)
    for start in found.starts:
        for log_dir in start.log_dirs:
            yield from (log.name for log in log_dir.logs)


def findings(found: Diagnosis, names: Names) -> list[str]:
    """Return the lines. Those that look equal after cutting are shown once."""
    lines = (line for text in _texts(found, names) for line in rows(names.in_text(text)))
    return list(dict.fromkeys(lines))


def _texts(found: Diagnosis, names: Names) -> Iterator[str]:
    unknown = any(trouble.rule == NO_POLICY for trouble in found.troubles)
    if found.zookeeper and unknown:
        yield _IN_ZOOKEEPER
    yield from _troubles(found, names)
    yield from _of_cleaner(found, names)
    yield from (f"in the way: {stranger}" for stranger in found.strangers[:_MOST_GROUPS])
    if len(found.strangers) > _MOST_GROUPS:
        yield f"in the way: {counted(len(found.strangers) - _MOST_GROUPS, 'more entry')}"
    yield from _kept(found, names)
    yield from _due(found, names)
    yield from _census(found)
    yield from _space(found)
    if found.topics:
        largest = [topic for topic in found.topics[:_NAMED_KINDS] if topic.log_bytes]
        most = ", ".join(f"{t.topic} {size(t.log_bytes)}" for t in largest) or "none has any"
        yield f"{counted(len(found.topics), 'topic')}, most bytes: {most}"
    if found.zookeeper and not unknown:
        yield _IN_ZOOKEEPER
    yield by_the_rules(found.kafka)


def _of_cleaner(found: Diagnosis, names: Names) -> Iterator[str]:
    if found.dead_cleaner:
        yield f"the cleaner seems dead: {found.dead_cleaner}"
    if passed := [p for p in found.overdue if p.passed_over]:
        yield _line("passed over by the cleaner for hours", passed, names)
    if found.misplaced:
        yield _line("cleaner entry in the wrong log directory", found.misplaced, names)


def _kept(found: Diagnosis, names: Names) -> Iterator[str]:
    """Yield what keeps bytes, or deletes them, other than settings."""
    for by, words in _HELD.items():
        if held := [p for p in found.held if p.by == by]:
            total = size(sum(p.log_bytes for p in held))
            why = held[0].words.replace("the newest record is of", "newest record")
            yield f"{total} {words}: {why} ({_line('of', held, names)})"
    if found.held_back:
        total = size(sum(p.held_bytes for p in found.held_back))
        yield _line(f"open transactions keep {total}", found.held_back, names)
    if found.short_of_space and found.gains:
        yield short_of_space(found)


def short_of_space(found: Diagnosis) -> str:
    many = counted(found.short_of_space, "partition")
    return f"the compaction of {many} needs more space than is free"


def _due(found: Diagnosis, names: Names) -> Iterator[str]:
    if found.expired:
        total = size(sum(p.log_bytes for p in found.expired))
        yield _line(f"past retention, not deleted by the broker, {total}", found.expired, names)
    if found.overdue:
        total = size(sum(p.dirty_bytes for p in found.overdue))
        since = [p.dirty_since for p in found.overdue if p.dirty_since is not None]
        age = f", {duration(max(found.now - min(since), 0))}" if since else ""
        yield _line(f"due for compaction, {total} dirty{age}", found.overdue, names)
    if found.preparations:
        total = size(sum(p.bytes for p in found.preparations))
        lost = sum(p.dropped is not None for p in found.preparations)
        no_more = f", {lost:,} no longer valid" if lost else ""
        yield _line(f"prepared for `commit`, {total}{no_more}", found.preparations, names)


def name_of(partition: _Named) -> str:
    return f"{partition.topic}-{partition.partition}"


def _line(words: str, partitions: Sequence[_Named], names: Names) -> str:
    """Return the words with the number of partitions, and the first names that fit the line."""
    every = list(dict.fromkeys(map(name_of, partitions)))
    text = f"{words}: {counted(len(every), 'partition')}"
    which = names.few(every, COLUMNS - len(text) - len("  , "))
    return f"{text}, {which}" if which else text


def _troubles(found: Diagnosis, names: Names) -> Iterator[str]:
    """Yield a line for each reason why partitions can't be cleaned. The first damage is among what
    happened.
    """
    damaged = [t for t in found.troubles if t.error is not None]
    others = [t for t in found.troubles if t.error is None]
    groups = [
        *alike((t.topic, name_of(t), t.error or "") for t in damaged)[1:],
        *alike((t.topic, name_of(t), t.reason) for t in others),
    ]
    for group in groups[:_MOST_GROUPS]:
        many = counted(len(group.names), "partition")
        which = names.few(group.names, _FEW) or "see --all"
        yield f"can't be cleaned, {many} ({which}): {group.text}"
    if rest := groups[_MOST_GROUPS:]:
        many = counted(sum(len(group.names) for group in rest), "partition")
        yield f"can't be cleaned, {many} for {counted(len(rest), 'more reason')}"


def _census(found: Diagnosis) -> Iterator[str]:
    census = found.census or ()
    keyless = [p for p in census if p.keyless.records]
    if keyless:
        total = size(sum(p.keyless.bytes for p in keyless))
        yield f"records without a key, which compaction drops, {total}: {len(keyless)} partitions"
    many = sum(amount.records for p in census for amount in p.tombstones)
    if census:
        due = sum(p.horizon_come.records for p in census)
        yield f"{counted(many, 'tombstone')}; the next compaction drops {due:,}"
    if failed := [p for p in census if p.error]:
        yield f"{counted(len(failed), 'partition')} could not be read: {failed[0].error}"


def _space(found: Diagnosis) -> Iterator[str]:
    """Yield what takes the most space, and directories that no partition uses."""
    by_kind: dict[SpaceKind, int] = defaultdict(int)
    counts: dict[SpaceKind, int] = defaultdict(int)
    for use in found.space:
        for space in use.uses:
            by_kind[space.kind] += space.bytes
            counts[space.kind] += space.count
    used = [(NAMES[kind], many) for kind, many in by_kind.items()]
    outside = [use.outside_bytes for use in found.space if use.outside_bytes is not None]
    if len(found.space) == 1:
        used += [("the rest of the disk", many) for many in outside]
    used.sort(key=lambda kind: -kind[1])
    if used:
        most = ", ".join(f"{name} {size(many)}" for name, many in used[:_NAMED_KINDS])
        yield f"space: {most}"
    unused = [f"{counts[kind]:,} -{kind}" for kind in _ALWAYS if counts[kind]]
    if unused:
        total = size(sum(by_kind[kind] for kind in _ALWAYS))
        yield f"directories that no partition uses, {total}: {', '.join(unused)}"
    elsewhere = [link for use in found.space for link in use.elsewhere]
    if elsewhere:
        first = elsewhere[0]
        where = first.target or "another file system"
        yield f"not counted, {counted(len(elsewhere), 'link')}: {first.name} to {where}"
