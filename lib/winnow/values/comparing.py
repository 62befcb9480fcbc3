"""Compare several plans in one table, for example to plot it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from winnow.clean.result import NONE
from winnow.errors import UsageError
from winnow.values.html import freed_bytes
from winnow.values.plans import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMPARED = StructType(
    [
        StructField("plan", StringType(), nullable=False),
        StructField("topic", StringType(), nullable=False),
        StructField("partitions", IntegerType(), nullable=False),
        StructField("cleaned", IntegerType(), nullable=False),
        StructField("bytes_before", LongType(), nullable=False),
        StructField("freed_bytes", LongType()),
    ]
)
"""One row for each topic of each plan. `cleaned`: number of partitions that would change.
`freed_bytes` is null if only a run or an estimate can find it.
"""

_Row = tuple[str, str, int, int, int, int | None]


def compare(plans: Mapping[str, Plan]) -> DataFrame:
    """Return what each plan would do, by topic, with the columns COMPARED. Raises UsageError if
    there is no plan.
    """
    if not plans:
        raise UsageError("no plan to compare", expected='{"a name": a plan, ...}')
    spark = next(iter(plans.values())).spark
    return spark.createDataFrame(
        [row for name, plan in plans.items() for row in _rows(name, plan)], COMPARED
    )


def _rows(name: str, plan: Plan) -> Iterator[_Row]:
    for topic in sorted({p.topic for p in plan.partitions}):
        own = [p for p in plan.partitions if p.topic == topic]
        cleaned = sum(p.actions != (NONE,) for p in own)
        yield (
            name,
            topic,
            len(own),
            cleaned,
            sum(p.bytes_before or 0 for p in own),
            freed_bytes(own),
        )
