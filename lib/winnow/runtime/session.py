"""What a run asks of the session it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark import SparkContext


class WithContext(Protocol):
    """A SparkSession, or whatever else knows a SparkContext. To start Spark SQL beside it costs a
    process a second.
    """

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802 - Spark's name
        ...
