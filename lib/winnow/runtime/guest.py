"""Beside a running broker, Winnow is a guest: it leaves most of the disk to the broker (S8.11)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from winnow.runtime.throttle import limiting_io
from winnow.storage.beside.look import looks

if TYPE_CHECKING:
    from pyspark import SparkContext

BYTES_PER_SECOND = 50 * 2**20
"""Read from the directories of running brokers, unless `--throttle` or the broker's
`log.cleaner.io.max.bytes.per.second` says otherwise.
"""


def as_guest(sc: SparkContext) -> AbstractContextManager[None]:
    """Limit what this thread and its Spark jobs read inside the block, if some broker is running
    on what is read.
    """
    return limiting_io(sc, BYTES_PER_SECOND if looks() else None)
