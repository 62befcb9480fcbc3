"""Measure where the time of a run goes: consecutive phases, and what Spark did in each.

    with profiling(spark.sparkContext) as profiler:
        plan(spark, log_dirs, settings=settings, now=now, progress=profiler)
    profiler.profile()

A phase is a stage of the progress; phases of the same name are merged. A Spark job belongs to the
phase in which it was submitted. Unless profiling is requested, nothing is measured and tasks carry
nothing extra.

What Spark did is read from the driver's status store. The store exists even without the UI. Reading
it needs no listener of ours, which would call back into Python.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from winnow.clock import ms_of, now_ms
from winnow.runtime.meter import StageCounts, metering
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.session import tagged

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext


_PATIENCE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    at_ms: int
    """Since the epoch, to compare with Spark's times."""


def _counted(*names: str, per: int = 1) -> Any:  # noqa: ANN401 - as `field`
    """Declare a sum over the stages, by the names of Spark or of `winnow.runtime.meter`. `per`: how
    many of their units are one of the field's.
    """
    return field(default=0, metadata={"names": names, "per": per})


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
    tasks: int = _counted("numCompleteTasks", "numFailedTasks", "numKilledTasks")
    task_seconds: float = _counted("executorRunTime", per=1000)
    python_cpu_seconds: float = _counted("cpu_ns", per=10**9)
    read_back_seconds: float = _counted("read_back_ns", per=10**9)
    """Of tasks and their threads, in which they read back what they wrote
    (docs/decisions/0005-read-back.md). Part of `task_seconds`, except what passes while the task
    writes the next segment.
    """
    jvm_cpu_seconds: float = _counted("executorCpuTime", per=10**9)
    bytes_read: int = _counted("read")
    """Of files, by tasks. Mapped bytes count as read."""
    bytes_written: int = _counted("written")
    shuffle_bytes_written: int = _counted("shuffleWriteBytes")
    shuffle_records_written: int = _counted("shuffleWriteRecords")
    shuffle_bytes_read: int = _counted("shuffleReadBytes")
    spilled_bytes: int = _counted("diskBytesSpilled")
    gc_seconds: float = _counted("jvmGcTime", per=1000)


_COUNTED = {one.name: one.metadata for one in fields(Phase) if one.metadata}


@dataclass(frozen=True, slots=True)
class Profile:
    seconds: float
    """From the start of the first phase to the end of the last: the sum of all phases."""
    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class Job:
    submitted_ms: int
    completed_ms: int | None
    """None while it runs."""
    stages: tuple[int, ...]
    """Includes skipped stages, whose output an earlier job had left."""


Stages = Mapping[int, Counter[str]]
"""By number, ascending, the sums over all attempts of a stage: by the names in `_COUNTED`."""


class _Sums:
    """Adds StageCounts in a pyspark accumulator."""

    def zero(self, value: StageCounts) -> StageCounts:
        del value
        return {}

    def addInPlace(self, left: StageCounts, right: StageCounts) -> StageCounts:  # noqa: N802 - pyspark's name
        none = Counter[str]()
        return {n: left.get(n, none) + right.get(n, none) for n in {*left, *right}}


class Profiler(Progress):
    """A Progress that records when each stage began and forwards to another Progress."""

    def __init__(self, sc: SparkContext, tag: str, *, earlier: Sequence[Mark] = ()) -> None:
        """`tag`: of the jobs that count. `earlier`: phases before Spark started."""
        self._sc, self._tag = sc, tag
        self._progress: Progress = Silence()
        self._marks = [*earlier]
        self.counts: Accumulator[StageCounts] = sc.accumulator({}, _Sums())  # type: ignore[arg-type]  # pyspark accepts it

    def stage(self, name: str, **total: int | None) -> None:
        self.mark(name)
        self._progress.stage(name, **total)

    def advance(self, amount: int) -> None:
        self._progress.advance(amount)

    def mark(self, name: str) -> None:
        """Begin a phase that is not forwarded."""
        self._marks.append(Mark(name, now_ms()))

    def tell(self, progress: Progress) -> None:
        """Forward to this Progress from now on."""
        self._progress = progress

    def profile(self) -> Profile:
        now = now_ms()
        jobs, stages = jobs_with_tag(self._sc, self._tag)
        for stage in stages.keys() & self.counts.value.keys():
            stages[stage].update(self.counts.value[stage])
        return profile_of([*self._marks, Mark("", now)], jobs, stages)


def jobs_with_tag(sc: SparkContext, tag: str) -> tuple[list[Job], dict[int, Counter[str]]]:
    """Return the jobs and stages that Spark remembers (`spark.ui.retainedJobs`,
    `spark.ui.retainedStages`: a thousand each).
    """
    context: Any = sc._jsc.sc()  # noqa: SLF001 - the only way to the JVM
    context.listenerBus().waitUntilEmpty(_PATIENCE_MS)
    store = context.statusStore()
    # As JSON: one call to the JVM costs as much as many fields.
    jvm: Any = sc._jvm  # noqa: SLF001
    mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    jobs = [
        Job(
            _ms(job["submissionTime"]),
            _ms(job["completionTime"]) if "completionTime" in job else None,
            tuple(job["stageIds"]),
        )
        for job in json.loads(mapper.writeValueAsString(store.jobsList(None)))
        if tag in job["jobTags"]
    ]
    no_quantiles = sc._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]  # noqa: SLF001
    attempts = json.loads(
        mapper.writeValueAsString(store.stageList(None, False, False, no_quantiles, None))
    )
    stages: dict[int, Counter[str]] = {stage: Counter() for job in jobs for stage in job.stages}
    counted = [name for told in _COUNTED.values() for name in told["names"]]
    for attempt in attempts:
        if attempt["stageId"] in stages and attempt["status"] != "SKIPPED":
            stages[attempt["stageId"]].update({name: attempt.get(name, 0) for name in counted})
    return jobs, {number: stages[number] for number in sorted(stages) if stages[number]}


def _ms(text: str) -> int:
    """Parse `2026-11-21T19:37:16.406GMT`."""
    return ms_of(datetime.fromisoformat(text.removesuffix("GMT")))


@contextmanager
def profiling(sc: SparkContext, *, earlier: Sequence[Mark] = ()) -> Iterator[Profiler]:
    """Yield a Profiler: pass it to a run as `progress`, then ask it for the profile. The Spark jobs
    that this thread starts inside the block are those of the run.
    """
    with tagged(sc) as tag:
        profiler = Profiler(sc, tag, earlier=earlier)
        with metering(profiler.counts):
            yield profiler


def profile_of(marks: Sequence[Mark], jobs: Sequence[Job], stages: Stages) -> Profile:
    """Build the profile. The last mark is the end. Phases without time and jobs are left out."""
    left = dict(stages)
    phases: dict[str, list[Phase]] = {}
    for number, (mark, following) in enumerate(pairwise(marks)):
        last = number == len(marks) - 2
        own = [
            job
            for job in jobs
            if mark.at_ms <= job.submitted_ms and (last or job.submitted_ms < following.at_ms)
        ]
        # A stage belongs to the first job that names it.
        of_own = [left.pop(stage) for job in own for stage in job.stages if stage in left]
        phase = _phase(mark, following, own, of_own)
        if phase.seconds or phase.jobs:
            phases.setdefault(mark.name, []).append(phase)
    seconds = (marks[-1].at_ms - marks[0].at_ms) / 1000 if marks else 0.0
    return Profile(seconds, tuple(together(name, some) for name, some in phases.items()))


def _phase(
    mark: Mark, following: Mark, jobs: Sequence[Job], stages: Sequence[Counter[str]]
) -> Phase:
    elapsed_ms = following.at_ms - mark.at_ms
    amounts: dict[str, Any] = {}
    for name, told in _COUNTED.items():
        amount = sum(stage[counted] for stage in stages for counted in told["names"])
        amounts[name] = amount if told["per"] == 1 else amount / told["per"]
    return Phase(
        name=mark.name,
        seconds=elapsed_ms / 1000,
        driver_seconds=(elapsed_ms - _covered(jobs, mark.at_ms, following.at_ms)) / 1000,
        jobs=len(jobs),
        stages=len(stages),
        **amounts,
    )


def _covered(jobs: Sequence[Job], begin: int, end: int) -> int:
    """Return the milliseconds of [begin, end) in which at least one of the jobs ran."""
    covered, through = 0, begin
    for job in sorted(jobs, key=lambda job: job.submitted_ms):
        until = end if job.completed_ms is None else min(job.completed_ms, end)
        covered += max(0, until - max(job.submitted_ms, through))
        through = max(through, until)
    return covered


def together(name: str, phases: Sequence[Phase]) -> Phase:
    """Return one phase with the sums of these."""
    summed = [one for one in Phase.__slots__ if one != "name"]
    sums = {one: sum(getattr(phase, one) for phase in phases) for one in summed}
    return Phase(name=name, **sums)
