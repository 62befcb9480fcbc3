"""What figures were taken on, in words."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def describe_machine() -> str:
    """One item of a list."""
    return f"{describe_hardware()} Load at the end: {load_average():.1f}."


def describe_hardware() -> str:
    """The same whenever it is asked."""
    return (
        f"* Machine: {processor()}, {os.cpu_count() or 1} cores, {memory_gib():.0f} GiB; "
        f"{platform.system()} "
        f"{platform.release()},\n  Python {platform.python_version()}."
    )


def load_average() -> float:
    return os.getloadavg()[0]


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
