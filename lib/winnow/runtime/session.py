"""What a run needs of the Spark session it is given."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from winnow.storage.live.read_view import views

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


@contextmanager
def tagged(sc: SparkContext) -> Iterator[str]:
    """Tag the Spark jobs that this thread starts inside the block. Yield the tag."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - imported before Spark is needed

    tag = f"winnow-{uuid.uuid4().hex}"
    sc.addJobTag(tag)
    try:
        yield tag
    finally:
        with suppress(Py4JError, OSError):  # the JVM is shutting down, and the tag ends with it
            sc.removeJobTag(tag)


@contextmanager
def telling_tasks(sc: SparkContext, key: str, value: str) -> Iterator[None]:
    """Give a local property to the Spark jobs that this thread starts inside the block."""
    sc.setLocalProperty(key, value)
    try:
        yield
    finally:
        forget_properties(sc, key)


def forget_properties(sc: SparkContext, *keys: str) -> None:
    for key in keys:
        sc.setLocalProperty(key, None)  # type: ignore[arg-type]  # Java's null removes it


def cores_of(sc: SparkContext) -> int:
    """Return how many tasks run at once: beside a running broker, on half of the cores."""
    cores = sc.defaultParallelism
    return max(1, cores // 2) if views() else cores
