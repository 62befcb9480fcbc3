"""A process does a little work without numba, and loads it before the work takes longer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.wire.logs import record

WALK = f"""
import sys
import numpy as np
from winnow.wire.batch import BATCH, WalkStatus
from winnow.wire.walk import find_batch, first_bad_crc, walk_batches

batch = bytes.fromhex("{encode_batch([record(0)]).hex()}")
count = int(sys.argv[1])
data = b"".join(number.to_bytes(8) + batch[8:] for number in range(count))
rows = np.zeros(count + 1, BATCH)
assert walk_batches(data, 0, 0, rows) == (count, len(data), WalkStatus.END)
assert rows["last_offset"][:count].tolist() == list(range(count))
assert (rows["position"][:count] == np.arange(count) * len(batch)).all()
print("numba" in sys.modules)
for _ in range(int(sys.argv[2])):
    assert first_bad_crc(data, rows[:count]) == -1
    assert find_batch(data, 1, 0, 2**62) == len(batch)
print("numba" in sys.modules)
"""


@pytest.mark.parametrize(
    ("batches", "times", "loaded"),
    [(100, 1, ["False", "False"]), (200_000, 1, ["True", "True"]), (1_000, 600, ["False", "True"])],
    ids=["little", "much at once", "often a little"],
)
def test_numba_is_loaded_once_it_pays(batches: int, times: int, loaded: list[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", WALK, str(batches), str(times)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == loaded
