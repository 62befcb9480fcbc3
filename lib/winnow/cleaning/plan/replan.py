"""Decide again, with other settings, about partitions that were surveyed before."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.cleaning.plan.decide_listed import Walk, partition_work, with_walks
from winnow.cleaning.plan.prepared import Known, LeftAlone, PartitionWork, Prepared
from winnow.cleaning.request import Request
from winnow.policy.plan import Reason
from winnow.policy.sources import Unknown


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
