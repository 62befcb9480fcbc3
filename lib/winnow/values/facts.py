"""Facts about partitions, read from their files on first use and then remembered.

Nothing is locked between two reads. So each read first checks that the files have not changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from winnow.cleaning.plan.prepare import prepare
from winnow.cleaning.plan.prepared import PartitionWork, Prepared
from winnow.cleaning.plan.saved import check_same
from winnow.cleaning.plan.settings import io_rate
from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.compaction import Weighed, weigh
from winnow.cleaning.summaries.search import walk_partitions
from winnow.logdir.lock import locked
from winnow.runtime.failure import Failure
from winnow.runtime.same_directories import same_directories
from winnow.runtime.throttle import limiting_io
from winnow.scan.job import PartitionJob
from winnow.survey.survey import ToWalk
from winnow.survey.walk import SegmentWalk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Walks = tuple[SegmentWalk, ...]


@dataclass(slots=True)
class Facts:
    """Facts about the partitions of one plan, shared by all plans derived from it."""

    spark: SparkSession
    log_dirs: tuple[str, ...]
    prepared: Sequence[Prepared] = ()
    """As in the first plan."""
    request: Request | None = None
    _walks: dict[Hashable, Walks] = field(default_factory=dict)
    _weighed: dict[Hashable, Weighed] = field(default_factory=dict)

    def see(self, prepared: Sequence[Prepared], request: Request) -> None:
        self.prepared, self.request = tuple(prepared), request
        for item in prepared:
            if isinstance(item, PartitionWork) and item.walks is not None:
                self._walks[item.state.directory, item.snapshot.offset] = item.walks

    def walk(self, chosen: Sequence[ToWalk]) -> list[Walks | Failure]:
        """Like `walk_partitions`, with remembered results."""
        keys = [(state.directory, offset) for state, offset in chosen]
        wanted = [at for at, key in enumerate(keys) if key not in self._walks]
        failed: dict[Hashable, Failure] = {}
        if wanted:
            with self._unchanged() as request:
                walked = walk_partitions(
                    self.spark.sparkContext,
                    [chosen[at] for at in wanted],
                    progress=request.progress,
                )
            for at, walks in zip(wanted, walked, strict=True):
                if isinstance(walks, Failure):
                    failed[keys[at]] = walks
                else:
                    self._walks[keys[at]] = walks
        return [failed[key] if key in failed else self._walks[key] for key in keys]

    def weigh(self, now: int, jobs: Sequence[PartitionJob]) -> list[Weighed]:
        """Measure rounds of cleaning, each one once, whatever settings led to it."""
        keys = [_key(job, now) for job in jobs]
        wanted = [at for at, key in enumerate(keys) if key not in self._weighed]
        if wanted:
            with self._unchanged() as request:
                found = weigh(
                    self.spark.sparkContext,
                    [jobs[at] for at in wanted],
                    replace(request, now=now),
                )
            self._weighed |= {keys[at]: weighed for at, weighed in zip(wanted, found, strict=True)}
        return [self._weighed[key] for key in keys]

    @property
    def first_request(self) -> Request:
        """Return the request of the first plan. Raises ValueError if there is none yet."""
        if self.request is None:
            raise ValueError("there is no first plan yet")
        return self.request

    @contextmanager
    def _unchanged(self) -> Iterator[Request]:
        request = self.first_request
        with (
            locked(self.log_dirs, to_change=False) as dirs,
            same_directories(self.spark.sparkContext, [d.path for d in dirs]),
            limiting_io(self.spark.sparkContext, io_rate(request.settings, dirs)),
        ):
            # Retention is decided without reading a log.
            check_same(
                self.prepared,
                prepare(self.spark.sparkContext, dirs, replace(request, only="retention")),
            )
            yield request


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
