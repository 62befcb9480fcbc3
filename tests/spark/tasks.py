"""The work of each task of a run, as tasks and Spark count it: amounts, not times."""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from winnow.runtime.meter import StageCounts, metering
from winnow.runtime.packing import ITEM_BYTES
from winnow.runtime.profile import jobs_with_tag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class StageWork:
    """Of one stage, in each task; `work` and `counts` in an order of their own."""

    counts: tuple[Counter[str], ...]
    shuffled: tuple[int, ...]
    """Bytes, read and written."""

    @property
    def work(self) -> tuple[int, ...]:
        """Bytes, with those that the files cost."""
        return tuple(
            one["read"] + one["written"] + one["files"] * ITEM_BYTES for one in self.counts
        )


class _EachTask:
    """Collects what `winnow.runtime.meter` adds up."""

    def zero(self, value: list[StageCounts]) -> list[StageCounts]:
        del value
        return []

    def addInPlace(self, left: list[StageCounts], right: Any) -> list[StageCounts]:  # noqa: N802 - pyspark's
        return left + (right if isinstance(right, list) else [right])


def work_of(spark: SparkSession, work: Callable[[], object]) -> list[StageWork]:
    """Of each stage, in the order in which they ran."""
    sc, tag = spark.sparkContext, f"work-{uuid.uuid4().hex}"
    each = sc.accumulator([], _EachTask())  # type: ignore[arg-type]
    sc.addJobTag(tag)
    try:
        with metering(each):
            work()
    finally:
        sc.removeJobTag(tag)
    _, stages = jobs_with_tag(sc, tag)
    counted: dict[int, list[Counter[str]]] = defaultdict(list)
    for term in each.value:
        for stage, counts in term.items():
            counted[stage].append(counts)
    return [StageWork(tuple(counted[number]), _shuffled(spark, number)) for number in stages]


def _shuffled(spark: SparkSession, stage: int) -> tuple[int, ...]:
    jvm: Any = spark._jvm
    store = spark.sparkContext._jsc.sc().statusStore()
    mapper = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    tasks = [
        task["taskMetrics"]
        for task in json.loads(mapper.writeValueAsString(store.taskList(stage, 0, 1 << 16)))
    ]
    return tuple(
        task["shuffleReadMetrics"]["localBytesRead"]
        + task["shuffleReadMetrics"]["remoteBytesRead"]
        + task["shuffleWriteMetrics"]["bytesWritten"]
        for task in tasks
    )


def skew(amounts: tuple[int, ...]) -> float:
    """The most over the median."""
    return max(amounts, default=0) / max(1, median(amounts or (0,)))
