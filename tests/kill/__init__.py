"""Real runs that are killed with SIGKILL, and what the next run does with what they left."""

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
if str(_ROOT / "lib") not in sys.path:  # `python -m tests.kill.run`; pytest has it already
    sys.path.insert(0, str(_ROOT / "lib"))
    os.environ.setdefault("NUMBA_CACHE_DIR", str(_ROOT / ".cache" / "numba"))
