"""A destination of `clean --output` is at any moment no log directory, or a whole one, and can be
begun again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_kill_at_every_effect_leaves_nothing_or_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    crashes, whole = map(int, done.stdout.split())
    assert crashes >= 15
    assert whole == 3, "after meta.properties: a sync, the marker's end, a sync"
