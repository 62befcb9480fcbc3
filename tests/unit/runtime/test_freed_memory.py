"""The memory of Spark's Python workers: they keep what they free, within bounds."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="it is glibc that is asked"
)

_FAULTS = """
import resource, sys
import numpy as np
from winnow.runtime.freed_memory import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()
np.ones(4 * 2**20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(4 * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Return the page faults of ten arrays of 32 MiB, allocated one after the other."""
    environment = {"NUMPY_MADVISE_HUGEPAGE": "0", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", _FAULTS, how]
    return int(
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    )


def test_freed_memory_is_reused_without_page_faults() -> None:
    assert faults("kept") < faults("as it is") / 10


_HELD = """
import sys
import numpy as np
from winnow.runtime import freed_memory

freed_memory.keep_freed_memory()
arrays = [np.ones(2**20, np.uint8) for _ in range(int(sys.argv[1]) + 1)]
del arrays[1:-1]  # while the last one stays, glibc gives nothing back by itself
kept = freed_memory._held_bytes()
freed_memory.give_back_freed_memory()
print(kept // 2**20, freed_memory._held_bytes() // 2**20)
"""


@pytest.mark.parametrize(("mib", "given_back"), [(60, False), (300, True)])
def test_much_freed_memory_is_given_back(mib: int, *, given_back: bool) -> None:
    environment = {"NUMPY_MADVISE_HUGEPAGE": "0", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", _HELD, str(mib)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    kept, held = map(int, ended.stdout.split())
    assert kept >= mib
    assert (kept - held >= mib - 2) == given_back
    assert given_back or held == kept
