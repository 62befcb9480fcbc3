"""What a run needs of the Spark session it is given."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyspark import SparkContext


@runtime_checkable
class WithContext(Protocol):
    """A SparkSession, or anything with a SparkContext: Spark SQL costs a second to start."""

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802 - Spark's name
        ...


def use_this_python(sc: SparkContext) -> None:
    """Let workers on this machine run the Python of this process, unless the user chose one. Spark
    would run `python3` of PATH, which has no Winnow if no environment is activated.
    """
    chosen = "PYSPARK_PYTHON" in os.environ or sc.getConf().contains("spark.pyspark.python")
    if (sc.master or "").startswith("local") and not chosen:
        sc.pythonExec = sys.executable
