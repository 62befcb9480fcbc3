"""At any moment the destination of `clean --output` is a whole log directory or none. A stopped run
can be started again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_kill_at_any_effect_leaves_whole_log_directory_or_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.output", str(tmp_path)]
    # Neither the working directory nor what another test set may decide whether it is found.
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root / 'lib'}{os.pathsep}{root}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    crashes, whole = map(int, done.stdout.split())
    assert crashes >= 15
    assert whole == 3, "after meta.properties: a sync, the marker's end, a sync"
