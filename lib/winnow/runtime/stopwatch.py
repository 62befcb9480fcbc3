"""How long something took."""

from __future__ import annotations

import time


def ms_since(began: float) -> int:
    """Return the milliseconds since `began`, a `time.monotonic()` of this process."""
    return round(1000 * (time.monotonic() - began))
