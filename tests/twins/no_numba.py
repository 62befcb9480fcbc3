"""Call the functions that choose between a kernel and its plain twin as a small command does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

from winnow import small_work


@contextmanager
def without_numba() -> Iterator[None]:
    """Let nothing in the block use a kernel, as in a process that has not loaded numba."""
    with (
        patch.object(small_work, "sys", SimpleNamespace(modules={})),
        patch.object(small_work._Plain, "left_ns", 2**62),
    ):
        yield
