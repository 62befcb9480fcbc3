"""What the doctor says about bytes that something else keeps, or deletes, than the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from winnow.cli.out import Line, Paragraph, item, section
from winnow.cli.text.alike import alike
from winnow.words import counted, first_few, size

if TYPE_CHECKING:
    from winnow.verbs.doctor.values import Diagnosis, Held

_FEW = 3
"""Partitions with the same reason that are named."""
_MOST = 20
"""Reasons that are shown."""
_TITLES = {
    "high-watermark": "Held by lost high watermarks",
    "uncommitted": "Not committed, although the broker runs",
    "future-timestamp": "Held by timestamps in the future",
    "old-timestamps": "Deleted by timestamps much older than the files",
}
_NEXT = {
    "high-watermark": "Which records are committed is unknown, so Winnow changes none. Shorter "
    "retention frees nothing here. Start the broker: the leader of a partition raises the high "
    "watermark to what all its in-sync replicas have, at once if it is alone. Then stop the broker "
    "and run this again",
    "uncommitted": "In-sync replicas do not fetch these records, or there are fewer than "
    "min.insync.replicas: `kafka-topics.sh --describe --under-replicated-partitions` names them. "
    "Until then neither compaction nor retention reaches the records",
    "future-timestamp": "A broker keeps them as well, until that time. Earlier, retention.bytes "
    "frees them, or `kafka-delete-records.sh` up to that offset while the broker runs; in a "
    "compacted topic, min.compaction.lag.ms=0. From Kafka 3.6 on, message.timestamp.after.max.ms "
    "refuses such records",
    "old-timestamps": "A broker deletes them as well. Check what the producer sends as timestamp "
    "before you run `clean` or start the broker; message.timestamp.type=LogAppendTime ignores it",
}


def sections(found: Diagnosis) -> Iterator[Line]:
    """Yield a section for each cause."""
    for by, title in _TITLES.items():
        held = [one for one in found.held if one.by == by]
        total = size(sum(one.log_bytes for one in held))
        many = counted(len(held), "partition")
        yield from section(f"{title}: {total} in {many}", _lines(held, _NEXT[by]))


def why_nothing(found: Diagnosis) -> str:
    """Return why nothing can be freed, in a few words: the settings, unless something else is
    known to keep bytes.
    """
    causes = []
    for by, words in (
        ("high-watermark", "lost high watermarks keep"),
        ("future-timestamp", "timestamps in the future keep"),
    ):
        if log_bytes := sum(one.log_bytes for one in found.held if one.by == by):
            causes.append(f"{words} {size(log_bytes)}")
    if held := sum(one.held_bytes for one in found.held_back):
        causes.append(f"open transactions keep {size(held)}")
    if found.troubles:
        many = counted(len(found.troubles), "partition")
        causes.append(
            f"{many} can't be cleaned in {'its' if len(found.troubles) == 1 else 'their'}"
            " current state"
        )
    named = {one.topic for one in (*found.held, *found.held_back)}
    if any(one.topic not in named for one in found.unfreed):
        whose = "the settings of other topics" if causes else "the topics' settings"
        causes.append(f"{whose} allow none")
    return "; ".join(causes) or "there is no partition"


def _lines(held: Sequence[Held], what_next: str) -> Iterator[Line]:
    if not held:
        return
    groups = alike((one.topic, f"{one.topic}-{one.partition}", one.words) for one in held)
    for group in groups[:_MOST]:
        yield item(f"{first_few(group.names, _FEW)}: {group.words('--json')}")
    if len(groups) > _MOST:
        yield f"  {len(groups) - _MOST:,} more; --json has all"
    yield Paragraph(what_next, style="dim")
