"""Python's collector of garbage in cycles, while values are made by the hundred thousand that live
to the end.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 100_000


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """What has been there for long is not gone through each time that a quarter has been added to
    it: of a plan of 20,000 partitions that was a sixth of the time. What is new is collected as
    ever.
    """
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], _SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
