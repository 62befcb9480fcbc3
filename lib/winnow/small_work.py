"""Whether a process does a piece of work in plain Python instead of loading numba for it.

A command that only reads a few kilobytes would wait for numba longer than for its work. So a small
piece of work is done without, as long as all such pieces together take less time than loading does.
Where numba is loaded already, as in Spark's workers, kernels do everything.
"""

from __future__ import annotations

import sys

LOADING_NS = 350_000_000
"""Time in which numba and a few compiled kernels are loaded."""


class _Plain:
    left_ns = LOADING_NS


def has_numba() -> bool:
    """Return whether this process has loaded numba."""
    return "numba" in sys.modules


def plain_ns() -> int:
    """Return how much longer this process may work without numba, 0 if numba is loaded."""
    return 0 if has_numba() else _Plain.left_ns


def spend(ns: int) -> None:
    """Charge the time of work without numba to what this process may still spend on such work."""
    _Plain.left_ns = max(0, _Plain.left_ns - ns)


def is_small(ns: int) -> bool:
    """Return whether work that takes about so long is done without numba, and count it."""
    if max(0, ns) >= plain_ns():
        return False
    spend(ns)
    return True
