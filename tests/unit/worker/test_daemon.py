"""The memory of Spark's Python workers, as set up by the process that forks them."""

import socket
import subprocess
import sys
from contextlib import nullcontext
from typing import BinaryIO

import pytest
from pyspark import daemon

from winnow.worker.daemon import until_hung_up

_FAULTS = """
import resource, sys
import numpy as np
from winnow.worker.daemon import keep_freed_memory

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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is glibc that is asked")
def test_freed_memory_is_reused_without_page_faults() -> None:
    assert faults("kept") < faults("as it is") / 10


def test_worker_exits_quietly_when_the_jvm_closes_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work(_: object, outfile: BinaryIO) -> None:
        outfile.write(bytes(100))

    monkeypatch.setattr(sys, "argv", ["daemon"])
    monkeypatch.setattr("pyspark.worker.main", work)
    monkeypatch.setenv("PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE", "true")  # as Spark does
    for worker, hears in (
        (daemon.worker, pytest.raises(BrokenPipeError)),
        (until_hung_up(daemon.worker), nullcontext()),
    ):
        java, python = socket.socketpair()
        java.close()
        with python, hears:
            assert worker(python, True) == 1
