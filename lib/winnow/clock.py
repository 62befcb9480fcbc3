"""The clock of this machine, which is the default of every `now`; times in ms; ids of runs."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta
from functools import cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
LATEST_MS = 253_402_300_799_999
"""End of the year 9999. A later time is in microseconds or mistyped."""


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


RUN_ID = "[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}"
"""The pattern of run ids."""


def new_run_id() -> str:
    """Return an id for a run that begins now: its UTC time and a random number."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"


def ms_since(began: float) -> int:
    """Return the milliseconds since `began`, a `time.monotonic()` of this process."""
    return round(1000 * (time.monotonic() - began))


def ms_of(moment: datetime, *, up: bool = False) -> int:
    """Return milliseconds since the epoch, rounded down or `up`. Without a zone, it is in UTC."""
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    one = timedelta(milliseconds=1)
    return -(-since // one) if up else since // one


UNKNOWN_BOOT = "unknown"


@cache
def boot_id() -> str:
    """Return the id of this boot of the machine, UNKNOWN_BOOT if the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return UNKNOWN_BOOT


def ms_since_boot() -> int:
    """Return the time since this boot, in ms. Nothing sets this clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
