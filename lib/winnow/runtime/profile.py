"""Measure where the time of a run goes: consecutive phases, and what Spark did in each.

    with profiling(spark.sparkContext) as profiler:
        plan(spark, log_dirs, settings=settings, now=now, progress=profiler)
    profiler.profile()

A phase is a stage of the progress; phases of the same name are merged. A Spark job belongs to the
phase in which it was submitted. Unless profiling is requested, nothing is measured and tasks carry
nothing extra.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from winnow.clock import now_ms
from winnow.runtime.meter import StageCounts, TaskCounts, added, metering
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.status_store import Job, Stage, jobs_with_tag

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    at_ms: int
    """Since the epoch, to compare with Spark's times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Figures of one phase. Bytes are sums over all tasks.

    `seconds` is wall-clock time. `driver_seconds` is the part of it without a Spark job.
    """

    name: str
    seconds: float
    driver_seconds: float
    jobs: int = 0
    stages: int = 0
    tasks: int = 0
    task_seconds: float = 0
    python_cpu_seconds: float = 0
    read_back_seconds: float = 0
    """Of tasks and their threads, in which they read back what they wrote
    (docs/decisions/0005-read-back.md). Part of `task_seconds`, except what passes while the task
    writes the next segment.
    """
    jvm_cpu_seconds: float = 0
    bytes_read: int = 0
    """Of files, by tasks. Mapped bytes count as read."""
    bytes_written: int = 0
    shuffle_bytes_written: int = 0
    shuffle_records_written: int = 0
    shuffle_bytes_read: int = 0
    spilled_bytes: int = 0
    gc_seconds: float = 0


@dataclass(frozen=True, slots=True)
class Profile:
    seconds: float
    """From the start of the first phase to the end of the last: the sum of all phases."""
    phases: tuple[Phase, ...]


class _Sums:
    """Adds StageCounts in a pyspark accumulator."""

    def zero(self, value: StageCounts) -> StageCounts:
        del value
        return {}

    def addInPlace(self, left: StageCounts, right: StageCounts) -> StageCounts:  # noqa: N802 - pyspark's name
        return added(left, right)


class Profiler:
    """A Progress that records when each stage began and forwards to another Progress."""

    def __init__(
        self, sc: SparkContext, progress: Progress, *, earlier: Sequence[Mark] = ()
    ) -> None:
        """`earlier`: phases before Spark started."""
        self._sc = sc
        self._progress = progress
        self._marks = [*earlier]
        self._tag = f"winnow-profile-{uuid.uuid4().hex}"
        self._counts: Accumulator[StageCounts] = sc.accumulator({}, _Sums())  # type: ignore[arg-type]  # pyspark accepts it

    def stage(
        self, name: str, *, total_bytes: int | None = None, total_tasks: int | None = None
    ) -> None:
        self.mark(name)
        self._progress.stage(name, total_bytes=total_bytes, total_tasks=total_tasks)

    def advance(self, amount: int) -> None:
        self._progress.advance(amount)

    def mark(self, name: str) -> None:
        """Begin a phase that is not forwarded."""
        self._marks.append(Mark(name, now_ms()))

    def tell(self, progress: Progress) -> None:
        """Forward to this Progress from now on."""
        self._progress = progress

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the Spark jobs that this thread starts inside the block as those of the run."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - imported before Spark is needed

        self._sc.addJobTag(self._tag)
        try:
            with metering(self._counts):
                yield
        finally:
            with suppress(Py4JError, OSError):  # the JVM is shutting down, and the tag ends with it
                self._sc.removeJobTag(self._tag)

    def profile(self) -> Profile:
        now = now_ms()
        jobs, stages = jobs_with_tag(self._sc, self._tag)
        return profile_of([*self._marks, Mark("", now)], jobs, stages, self._counts.value)


@contextmanager
def profiling(
    sc: SparkContext, progress: Progress | None = None, *, earlier: Sequence[Mark] = ()
) -> Iterator[Profiler]:
    """Yield a Profiler: pass it to a run as `progress`, then ask it for the profile."""
    profiler = Profiler(sc, progress or Silence(), earlier=earlier)
    with profiler.watching():
        yield profiler


def profile_of(
    marks: Sequence[Mark], jobs: Sequence[Job], stages: Sequence[Stage], counts: StageCounts
) -> Profile:
    """Build the profile. The last mark is the end. Phases without time and jobs are left out."""
    by_number = {stage.number: stage for stage in stages}
    phases: dict[str, Phase] = {}
    for number, (mark, following) in enumerate(pairwise(marks)):
        last = number == len(marks) - 2
        own = [
            job
            for job in jobs
            if mark.at_ms <= job.submitted_ms and (last or job.submitted_ms < following.at_ms)
        ]
        # A stage belongs to the first job that names it.
        of_own = [by_number.pop(stage) for job in own for stage in job.stages if stage in by_number]
        phase = _phase(mark, following, own, of_own, counts)
        if phase.seconds or phase.jobs:
            phases[mark.name] = (
                _together(phases[mark.name], phase) if mark.name in phases else phase
            )
    seconds = (marks[-1].at_ms - marks[0].at_ms) / 1000 if marks else 0.0
    return Profile(seconds, tuple(phases.values()))


def _phase(
    mark: Mark, following: Mark, jobs: Sequence[Job], stages: Sequence[Stage], counts: StageCounts
) -> Phase:
    tasks = sum((counts.get(stage.number, TaskCounts()) for stage in stages), TaskCounts())
    return Phase(
        name=mark.name,
        seconds=(following.at_ms - mark.at_ms) / 1000,
        driver_seconds=(following.at_ms - mark.at_ms - _covered(jobs, mark.at_ms, following.at_ms))
        / 1000,
        jobs=len(jobs),
        stages=len(stages),
        tasks=sum(stage.tasks for stage in stages),
        task_seconds=sum(stage.run_ms for stage in stages) / 1000,
        python_cpu_seconds=tasks.cpu_ns / 1e9,
        read_back_seconds=tasks.read_back_ns / 1e9,
        jvm_cpu_seconds=sum(stage.jvm_cpu_ns for stage in stages) / 1e9,
        bytes_read=tasks.read,
        bytes_written=tasks.written,
        shuffle_bytes_written=sum(stage.shuffle_written for stage in stages),
        shuffle_records_written=sum(stage.shuffle_written_records for stage in stages),
        shuffle_bytes_read=sum(stage.shuffle_read for stage in stages),
        spilled_bytes=sum(stage.spilled for stage in stages),
        gc_seconds=sum(stage.gc_ms for stage in stages) / 1000,
    )


def _covered(jobs: Sequence[Job], begin: int, end: int) -> int:
    """Return the milliseconds of [begin, end) in which at least one of the jobs ran."""
    covered, through = 0, begin
    for job in sorted(jobs, key=lambda job: job.submitted_ms):
        until = end if job.completed_ms is None else min(job.completed_ms, end)
        covered += max(0, until - max(job.submitted_ms, through))
        through = max(through, until)
    return covered


def _together(one: Phase, other: Phase) -> Phase:
    sums = {
        name: getattr(one, name) + getattr(other, name)
        for name in Phase.__slots__
        if name != "name"
    }
    return Phase(name=one.name, **sums)
