"""What a run needs of the Spark session it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark import SparkContext


class WithContext(Protocol):
    """A SparkSession, or anything else with a SparkContext. Starting Spark SQL as well costs a
    process one second.
    """

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802 - Spark's name
        ...
