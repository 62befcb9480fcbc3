"""Facts about partitions, read from their files on first use and then remembered.

Nothing is locked between two reads. So each read first checks that the files have not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from winnow.cleaning.plan.partitions import Planned, PlannedPartition
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.plan.saved import check_same
from winnow.cleaning.plan.settings import io_rate
from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.compaction import Estimated, estimate
from winnow.cleaning.summaries.search import walk_partitions
from winnow.logdir.lock import locked
from winnow.logdir.survey import LogDir
from winnow.runtime.failure import Failure
from winnow.runtime.same_directories import same_directories
from winnow.runtime.throttle import limiting_io, limiting_io_beside_brokers
from winnow.scan.job import PartitionJob
from winnow.storage.live.read_view import ReadView
from winnow.survey.survey import ToWalk
from winnow.survey.walk import SegmentWalk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Walks = tuple[SegmentWalk, ...]


@dataclass(slots=True)
class Facts:
    """Facts about the partitions of one plan, shared by all plans derived from it."""

    spark: SparkSession
    log_dirs: tuple[str, ...]
    planned: Sequence[Planned]
    """As in the first plan."""
    request: Request
    views: tuple[ReadView, ...] = ()
    """The read views of the first plan, if brokers were running."""
    _known: dict[Hashable, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._known = {
            (item.state.directory, item.snapshot.offset): item.walks
            for item in self.planned
            if isinstance(item, PlannedPartition) and item.walks is not None
        }

    def walk(self, chosen: Sequence[ToWalk]) -> list[Walks | Failure]:
        """Like `walk_partitions`, with remembered results."""
        sc, progress = self.spark.sparkContext, self.request.progress
        return self._all(
            [((state.directory, offset), (state, offset)) for state, offset in chosen],
            lambda some: walk_partitions(sc, some, progress=progress),
        )

    def estimate(self, now: int, jobs: Sequence[PartitionJob]) -> list[Estimated]:
        """Like `estimate`, with remembered results."""
        sc, request = self.spark.sparkContext, replace(self.request, now=now)
        return self._all(
            [(_key(job, now), job) for job in jobs], lambda some: estimate(sc, some, request)
        )

    def _all(
        self, asked: Sequence[tuple[Hashable, T]], find: Callable[[list[T]], Sequence[Any]]
    ) -> list[Any]:
        """Return the value of each key. `find` returns the values of items whose keys are not
        known yet, while the log directories are locked. Failures are not remembered.
        """
        new = {key: item for key, item in asked if key not in self._known}
        failed: dict[Hashable, Failure] = {}
        if new:
            sc = self.spark.sparkContext
            with ExitStack() as held:
                # The caller reads the views of running brokers.
                dirs: Sequence[LogDir] = ()
                if not self.views:
                    dirs = held.enter_context(locked(self.log_dirs, to_change=False))
                held.enter_context(same_directories(sc, [d.path for d in dirs]))
                held.enter_context(limiting_io_beside_brokers(sc))
                held.enter_context(limiting_io(sc, io_rate(self.request.settings, dirs)))
                if not self.views:
                    # Retention is decided without reading a log.
                    retained = replace(self.request, only="retention")
                    check_same(self.planned, plan_partitions(sc, dirs, retained))
                found = find([*new.values()])
            for key, value in zip(new, found, strict=True):
                (failed if isinstance(value, Failure) else self._known)[key] = value
        return [failed[key] if key in failed else self._known[key] for key, _ in asked]


def _key(job: PartitionJob, now: int) -> Hashable:
    """Return everything that a rewrite depends on, besides the files."""
    return (
        now,
        job.directory,
        job.first_dirty_offset,
        job.end_offset,
        tuple((group.base_offset, len(group.segments)) for group in job.groups),
        job.delete_retention_ms,
        job.delete_horizons,
        job.legacy_delete_horizon_ms,
        job.converts,
        job.emptied_end,
        job.index_interval_bytes,
        job.segment_index_bytes,
        job.max_decompressed_bytes,
        tuple(sorted(job.last_records.items())),
    )
