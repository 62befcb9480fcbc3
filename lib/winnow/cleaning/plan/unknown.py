"""Look for damage in partitions whose settings are unknown. Damage is the more urgent reason, and
does not depend on settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.cleaning.plan.partitions import UNREADABLE, SelectedPartition, SkippedPartition
from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.listing import list_below, resolve
from winnow.logdir.survey import LogDir
from winnow.policy.plan import Reason
from winnow.runtime.failure import Failure, failure
from winnow.runtime.spread import spread
from winnow.storage.places import Places
from winnow.survey.place import ListedPartition, PartitionPlace
from winnow.survey.survey import list_partitions
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_PER_TASK = 256


def with_damage(
    sc: SparkContext,
    planned: Sequence[SkippedPartition | SelectedPartition],
    log_dirs: Sequence[LogDir],
    request: Request,
) -> list[SkippedPartition | SelectedPartition]:
    """Return the same partitions. Those with unknown settings are listed: they get their sizes, or
    what is wrong with their files.

    After an unclean shutdown the end of a log is not read: a broker repairs it.
    """
    unknown = {
        number: item
        for number, item in enumerate(planned)
        if isinstance(item, SkippedPartition) and item.settings_unknown
    }
    clean = {n: item for n, item in unknown.items() if item.place.recovery_point is None}
    torn = {n: item for n, item in unknown.items() if n not in clean}
    places = [item.place for item in clean.values()]
    found = dict(zip(clean, list_partitions(sc, places, request.progress), strict=True))
    found |= dict(
        zip(torn, _look_below(sc, [i.place for i in torn.values()], request), strict=True)
    )
    by_path = {log_dir.path: log_dir for log_dir in log_dirs}
    result = list(planned)
    for number, item in unknown.items():
        result[number] = _judged(item, by_path[item.place.log_dir], found[number])
    return result


def _look_below(
    sc: SparkContext, places: Sequence[PartitionPlace], request: Request
) -> Sequence[ListedPartition | Failure]:
    """List what lies below the recovery point, and only sizes of the rest."""
    return spread(
        sc,
        _list_below,
        places,
        per_task=_PER_TASK,
        name=f"looking at {counted(len(places), 'partition')}",
        progress=request.progress,
    )


def _list_below(place: PartitionPlace) -> ListedPartition:
    listing = list_below(Places(), place.directory, place.recovery_point or 0)
    if listing.problems:
        raise listing.problems[0]
    return ListedPartition(listing, None)


def _judged(
    item: SkippedPartition, log_dir: LogDir, listed: ListedPartition | Failure
) -> SkippedPartition:
    why = listed
    if not isinstance(why, Failure):
        if why.log_end_offset is None:
            return item
        try:
            state = resolve(
                why.listing,
                log_dir=item.place.log_dir,
                topic_partition=item.place.topic_partition,
                checkpoints=log_dir.checkpoints,
                log_end_offset=why.log_end_offset,
                clean_shutdown=log_dir.clean_shutdown,
                trusted_end=item.place.trusted_end,
                lost_bytes=why.lost_bytes,
            )
        except FAILS_ONE_PARTITION as error:
            why = failure(error)
        else:
            return replace(item, state=state)
    words = f"{UNREADABLE.words}. Its settings are unknown as well: {item.reason.words}"
    return replace(item, reason=Reason(UNREADABLE.rule, words), error=why.message)
