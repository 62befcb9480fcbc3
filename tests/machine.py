"""The machine, as records of proofs name it."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines()
    models = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return f"{os.cpu_count()} cores ({next(models, platform.machine())})"


def machine() -> str:
    return f"{processor()}, {platform.system()} {platform.release()}"
