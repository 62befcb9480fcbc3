"""Read what Spark's own listener counted for the jobs with a tag, from the driver's status store.

The store exists even without the UI. Reading it needs no listener of ours, which would call back
into Python.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from winnow.clock import ms_of

if TYPE_CHECKING:
    from pyspark import SparkContext

_PATIENCE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Job:
    submitted_ms: int
    completed_ms: int | None
    """None while it runs."""
    stages: tuple[int, ...]
    """Includes skipped stages, whose output an earlier job had left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """All attempts of one stage together. The shuffle figures are in bytes and records."""

    number: int
    tasks: int
    """Tasks that ended, successfully or not."""
    run_ms: int
    """Sum over all tasks."""
    jvm_cpu_ns: int
    gc_ms: int
    shuffle_written: int
    shuffle_written_records: int
    shuffle_read: int
    spilled: int


def jobs_with_tag(sc: SparkContext, tag: str) -> tuple[list[Job], list[Stage]]:
    """Return the jobs and stages that Spark remembers (`spark.ui.retainedJobs`,
    `spark.ui.retainedStages`: a thousand each).
    """
    context: Any = sc._jsc.sc()  # noqa: SLF001 - the only way to the JVM
    context.listenerBus().waitUntilEmpty(_PATIENCE_MS)
    store = context.statusStore()
    # As JSON: one call to the JVM costs as much as many fields.
    jvm: Any = sc._jvm  # noqa: SLF001
    mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    found = [
        job
        for job in json.loads(mapper.writeValueAsString(store.jobsList(None)))
        if tag in job["jobTags"]
    ]
    jobs = [
        Job(_ms(job["submissionTime"]), _ms_or_none(job), tuple(job["stageIds"])) for job in found
    ]
    wanted = {stage for job in jobs for stage in job.stages}
    no_quantiles = sc._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]  # noqa: SLF001
    attempts = json.loads(
        mapper.writeValueAsString(store.stageList(None, False, False, no_quantiles, None))
    )
    by_number: dict[int, list[dict[str, Any]]] = {}
    for attempt in attempts:
        if attempt["stageId"] in wanted and attempt["status"] != "SKIPPED":
            by_number.setdefault(attempt["stageId"], []).append(attempt)
    return jobs, [_stage(number, found) for number, found in sorted(by_number.items())]


def _stage(number: int, attempts: Sequence[dict[str, Any]]) -> Stage:
    def total(*names: str) -> int:
        return sum(attempt[name] for attempt in attempts for name in names)

    return Stage(
        number=number,
        tasks=total("numCompleteTasks", "numFailedTasks", "numKilledTasks"),
        run_ms=total("executorRunTime"),
        jvm_cpu_ns=total("executorCpuTime"),
        gc_ms=total("jvmGcTime"),
        shuffle_written=total("shuffleWriteBytes"),
        shuffle_written_records=total("shuffleWriteRecords"),
        shuffle_read=total("shuffleReadBytes"),
        spilled=total("diskBytesSpilled"),
    )


def _ms_or_none(job: dict[str, Any]) -> int | None:
    return _ms(job["completionTime"]) if "completionTime" in job else None


def _ms(text: str) -> int:
    """Parse `2026-11-21T19:37:16.406GMT`."""
    return ms_of(datetime.fromisoformat(text.removesuffix("GMT")))
