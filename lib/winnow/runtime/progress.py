"""Report how far a Spark job is while it runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from winnow.runtime.session import forget_properties
from winnow.runtime.side_by_side import repeating

if TYPE_CHECKING:
    from pyspark import SparkContext

    from winnow.runtime.ticks import TickSheet  # it loads numpy

_EVERY_S = 0.5


@runtime_checkable
class Progress(Protocol):
    """Receives progress in stages that count bytes or tasks, or have only a name."""

    def stage(
        self, name: str, *, total_bytes: int | None = None, total_tasks: int | None = None
    ) -> None:
        del name, total_bytes, total_tasks

    def advance(self, amount: int) -> None:
        """`amount` more bytes or tasks of the stage are done."""
        del amount


class Silence(Progress):
    """A Progress that ignores everything."""


class Within(Progress):
    """A Progress of a part of the work: its stages begin with how much of the whole is done."""

    def __init__(self, words: str, whole: Progress) -> None:
        self._words, self._whole = words, whole

    def stage(self, name: str, **total: int | None) -> None:
        self._whole.stage(f"{self._words}; {name}", **total)

    def advance(self, amount: int) -> None:
        self._whole.advance(amount)


@contextmanager
def watched(
    sc: SparkContext,
    progress: Progress,
    name: str,
    *,
    tasks: int | None = None,
    items: int | None = None,
    ticks: TickSheet | None = None,
) -> Iterator[None]:
    """Report the Spark jobs run inside the block to `progress`; together they have `tasks` tasks.
    None: as many as Spark knows of, which may grow.

    In local mode, bytes are counted through `ticks` while tasks run. Otherwise tasks are counted as
    they end, or the `items` that were dealt out to them evenly. If the block succeeds, everything
    is reported as done.
    """
    group = f"winnow-{uuid.uuid4().hex}"
    in_bytes = ticks if (sc.master or "").startswith("local") else None
    if in_bytes is not None:
        total = in_bytes.total
        progress.stage(name, total_bytes=total)
    else:
        known = tasks if items is None else items
        total = known or 0
        progress.stage(name, total_tasks=known)
    sc.setJobGroup(group, name)
    reported = 0

    def tell(done: int) -> None:
        nonlocal reported
        if min(done, total) > reported:
            progress.advance(min(done, total) - reported)
            reported = min(done, total)

    def count() -> int:
        nonlocal total, reported
        if in_bytes is not None:
            return in_bytes.done()
        done, found = _tasks(sc, group)
        if tasks is not None:
            return done * total // tasks
        if found > total:
            total, reported = found, 0
            progress.stage(name, total_tasks=total)
        return done

    try:
        with repeating(lambda: tell(count()), every_s=_EVERY_S):
            yield
        tell(total)
    finally:
        # The session belongs to the caller: leave no mark on its later jobs.
        marks = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
        forget_properties(sc, *marks)


def _tasks(sc: SparkContext, group: str) -> tuple[int, int]:
    """Return how many tasks of the group's jobs are completed, and how many are known."""
    tracker = sc.statusTracker()
    done = known = 0
    for job in tracker.getJobIdsForGroup(group):
        information = tracker.getJobInfo(job)
        for stage in information.stageIds if information else ():
            state = tracker.getStageInfo(stage)
            done += state.numCompletedTasks if state else 0
            known += state.numTasks if state else 0
    return done, known
