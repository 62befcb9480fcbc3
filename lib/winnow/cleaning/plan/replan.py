"""Decide again, with other settings, about partitions that were surveyed before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.cleaning.plan.decide_listed import Walk, partition_work, with_walks
from winnow.cleaning.plan.prepared import Known, LeftAlone, PartitionWork, Prepared
from winnow.cleaning.request import Request
from winnow.errors import WinnowError
from winnow.policy.plan import Reason
from winnow.policy.sources import Unknown
from winnow.state import PartitionState


def rethink(prepared: Sequence[Prepared], request: Request, walk: Walk) -> list[Prepared]:
    """Return what `prepare` would return with the settings of `request`, all else being equal.

    Skipped partitions stay skipped: too little is known of their files or their policy.
    """
    decided = [item if isinstance(item, LeftAlone) else _anew(item, request) for item in prepared]
    return with_walks(decided, request, walk)


def _anew(item: PartitionWork, request: Request) -> Prepared:
    place = item.place
    config = request.settings.resolve(
        place.topic_partition.topic, node_id=item.log_dir.meta.node_id
    )
    if isinstance(config, Unknown):
        return LeftAlone(place, None, Reason("S9.2", config.reason), state=item.state)
    return partition_work(Known(place, item.log_dir, config), item.state, request)


def check_same(before: Sequence[Prepared], now: Sequence[Prepared]) -> None:
    """Raise WinnowError unless every partition is unchanged. Data that was not read before may
    differ.
    """
    found = {item.place.directory: item for item in now}
    for item in before:
        other = found.pop(item.place.directory, None)
        if other is None or (item.state is not None and not _same(item.state, other.state)):
            raise _changed(item.place.directory)
    if found:
        raise _changed(min(found))


def _same(before: PartitionState, now: PartitionState | None) -> bool:
    if now is None:
        return False
    if before.trusted_end is not None:
        now = replace(
            now, high_watermark=before.high_watermark
        )  # was lowered to the last stable offset, if that was read
    stamps, others = ([segment.log_stamp for segment in state.segments] for state in (before, now))
    return before == now and stamps == others


def _changed(directory: str) -> WinnowError:
    return WinnowError(
        "a partition has changed since the plan was made",
        where=directory,
        hint="Make a new plan.",
    )
