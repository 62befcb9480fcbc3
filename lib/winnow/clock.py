"""The clock of this machine: the default of every `now`, and the start and end times of a run."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
