"""What a plan was made from and what it decided, as plain values of JSON: compared with the files
as they are before a plan is carried out, in memory or from a saved file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any

from winnow.cleaning.plan.prepared import LeftAlone, Prepared
from winnow.errors import WinnowError
from winnow.logdir.names import LOG, segment_file
from winnow.policy.config import TopicConfig
from winnow.state import Segment

Plain = dict[str, Any]
"""An object of JSON."""

_SEGMENT = attrgetter(*(one.name for one in fields(Segment) if one.compare))
_OF_STATE = (
    "log_start_offset",
    "log_end_offset",
    "high_watermark",
    "cleaner_checkpoint",
    "log_start_checkpoint",
    "trusted_end",
    "lost_bytes",
)
_SETTINGS = tuple(one.name for one in fields(TopicConfig) if one.name not in {"sources", "rules"})


def facts_of(item: Prepared) -> Plain | None:
    """Return all that decides about a partition, besides the settings, the clock and the bytes of
    its segments. Those are the same if the inode, the mtime and the ctime of the `.log` are. None:
    nothing is known of it.
    """
    state = item.state
    if state is None:
        return None
    facts: Plain = {name: getattr(state, name) for name in _OF_STATE}
    if state.trusted_end is not None:
        # was lowered to the last stable offset, if that was read
        del facts["high_watermark"]
    recovered = state.recovered
    return facts | {
        "snapshot_offsets": list(state.snapshot_offsets),
        "leader_epochs": [list(one) for one in state.leader_epochs],
        "recovered": None
        if recovered is None
        else asdict(recovered) | {"removed": list(recovered.removed)},
        # the number of the device may change when the machine starts
        "segments": [[*_SEGMENT(one), *one.log_stamp[1:]] for one in state.segments],
    }


def decision_of(item: Prepared) -> Plain:
    """Return what was decided about a partition, and the settings that led to it."""
    if isinstance(item, LeftAlone):
        return {"rule": item.reason.rule, "reason": item.reason.words, "error": item.error}
    plan, compaction, retention = item.plan, item.plan.compaction, item.plan.retention
    return {
        "rule": plan.rule,
        "reason": plan.reason,
        "compaction": compaction
        and {
            "first_dirty_offset": compaction.first_dirty_offset,
            "end_offset": compaction.end_offset,
            "groups": [[segment.base_offset for segment in group] for group in compaction.groups],
        },
        "retention": retention
        and {
            "deleted": [segment.base_offset for segment in retention.deleted],
            "roll": retention.roll,
            "log_start_offset": retention.log_start_offset,
        },
        "checkpoint_reset": plan.checkpoint_reset,
        "split": list(item.overflowed),
        "settings": {name: getattr(item.config, name) for name in _SETTINGS},
    }


def check_same(before: Sequence[Prepared], now: Sequence[Prepared]) -> None:
    """Raise WinnowError unless every partition is unchanged. Data that was not read before may
    differ.
    """
    check_facts({item.place.directory: facts_of(item) for item in before}, now)


def check_facts(before: Mapping[str, Any], now: Sequence[Prepared]) -> None:
    """The same for `facts_of` by the partition's directory; None: unknown. Each of these may come
    from a file that anybody wrote: it is only compared.
    """
    found = {item.place.directory: facts_of(item) for item in now}
    unread = {item.place.directory: item for item in now if isinstance(item, LeftAlone)}
    for directory, facts in before.items():
        if directory not in found:
            raise changed(directory, "it is not there any more")
        other = found[directory]
        if facts is None or facts == other:
            continue
        if other is None:
            item = unread[directory]
            raise changed(directory, item.error or item.reason.words)
        raise changed(directory, _difference(facts, other))
    for directory in found:
        if directory not in before:
            raise changed(directory, "it is new")


def changed(where: str, what: str) -> WinnowError:
    return WinnowError(
        "a partition has changed since the plan was made",
        found=what,
        where=where,
        hint="Nothing was cleaned. Make a new plan.",
    )


def _difference(before: object, now: Plain) -> str:
    if not isinstance(before, dict):
        return "it is not what the plan says"
    segments = before.get("segments")
    if isinstance(segments, list) and segments != now["segments"]:
        return next(_segments(segments, now["segments"]))
    name = next(name for name in (*now, *before) if before.get(name) != now.get(name))
    return f"another {str(name).replace('_', ' ')}"


def _segments(before: Sequence[object], now: Sequence[Sequence[int]]) -> Iterator[str]:
    old = {one[0]: one for one in before if isinstance(one, list) and one and _is_int(one[0])}
    new = {one[0]: one for one in now}
    for base in sorted({*old, *new}):
        name = segment_file(base, LOG)
        if base not in new:
            yield f"no {name} any more"
        elif base not in old:
            yield f"{name}, which is new"
        elif old[base][1:2] != new[base][1:2]:
            yield f"{name} with {new[base][1]} bytes, another size than before"
        elif old[base] != new[base]:
            yield f"{name}, which was written to or replaced, or whose index was"
    yield "other segments"


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
