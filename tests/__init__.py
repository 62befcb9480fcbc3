"""Tests, and the commands `python -m tests.…`, which find the library here as pytest does."""

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
if str(_ROOT / "lib") not in sys.path:
    sys.path.insert(0, str(_ROOT / "lib"))
    os.environ.setdefault("NUMBA_CACHE_DIR", str(_ROOT / ".cache" / "numba"))
