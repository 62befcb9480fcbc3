"""The clock of this machine: the default of every `now`, and when a run began and ended."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
