"""Find the topics of a run whose own settings delete less than the options do (decision 47)."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.cleaning.plan.decide_listed import has_work
from winnow.cleaning.plan.prepared import LeftAlone, Prepared
from winnow.policy.more_deleted import deletes_more
from winnow.policy.sources import Settings


def overridden(
    prepared: Sequence[Prepared], settings: Settings
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return, by log directory and topic that the run changes, what lets more be deleted."""
    if not settings.sets and not settings.topic_sets:
        return {}
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for item in prepared:
        if isinstance(item, LeftAlone) or not has_work(item.plan):
            continue
        key = item.place.log_dir, item.place.topic_partition.topic
        if key not in found:
            found[key] = deletes_more(
                settings, key[1], item.config, node_id=item.log_dir.meta.node_id
            )
    return {key: some for key, some in found.items() if some}
