"""How far a Spark job is, told while it runs."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark import SparkContext

_EVERY_S = 0.5


class Progress(Protocol):
    """Whom it is told. Stages follow each other; without a total there is only a name to show."""

    def stage(self, name: str, *, total_tasks: int | None = None) -> None: ...

    def advance(self, amount: int) -> None:
        """So many more tasks of the stage are done."""
        ...


class Silence:
    """For callers who don't want to know."""

    def stage(self, name: str, *, total_tasks: int | None = None) -> None:
        del name, total_tasks

    def advance(self, amount: int) -> None:
        del amount


@contextmanager
def watched(sc: SparkContext, progress: Progress, name: str, *, tasks: int) -> Iterator[None]:
    """Tells `progress` of the Spark jobs that are run inside the block; together they have `tasks` tasks."""
    group = f"winnow-{uuid.uuid4().hex}"
    progress.stage(name, total_tasks=tasks)
    sc.setJobGroup(group, name)
    finished = threading.Event()

    def poll() -> None:
        told = 0
        while not finished.wait(_EVERY_S):
            done = _completed(sc, group)
            if done > told:
                progress.advance(done - told)
                told = done

    watcher = threading.Thread(target=poll, name="winnow-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()
        # The session is the caller's: leave no mark on its later jobs.
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            sc.setLocalProperty(key, None)  # type: ignore[arg-type]  # None removes it


def _completed(sc: SparkContext, group: str) -> int:
    tracker = sc.statusTracker()
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        information = tracker.getJobInfo(job)
        for stage in information.stageIds if information else ():
            state = tracker.getStageInfo(stage)
            done += state.numCompletedTasks if state else 0
    return done
