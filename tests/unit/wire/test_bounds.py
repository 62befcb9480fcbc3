"""NUMBA_BOUNDSCHECK=1 really checks bounds. The suite runs once with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config

from winnow.wire.kernels.crc import crc32c

ROOT = Path(__file__).resolve().parents[3]


def test_index_out_of_bounds_raises_under_boundscheck() -> None:
    """Arrays, and the loads, stores and copies of winnow.wire.kernels.memory, called and
    inlined.
    """
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.unit.wire.out_of_bounds"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    raised = [
        "index",
        "load",
        "load_inlined",
        "store",
        "copy_out",
        "copy_in",
        "copy_nothing_backwards",
    ]
    assert done.stdout.split() == raised


@pytest.mark.skipif(
    not config.BOUNDSCHECK, reason="reads where it must not; ./run-tests.sh --boundscheck"
)
def test_cached_kernels_check_bounds() -> None:
    with pytest.raises(IndexError, match="bytes are out of bounds"):
        crc32c(np.zeros(8, np.uint8), 0, 16)
