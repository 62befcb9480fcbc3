"""The memory of Spark's Python workers, as set up by the process that forks them."""

import subprocess
import sys

import pytest

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


_HUNG_UP = """
import socket, sys
import pyspark.worker
from pyspark import daemon
from winnow.worker.daemon import until_hung_up

pyspark.worker.main = lambda infile, outfile: outfile.write(bytes(100))
worker = until_hung_up(daemon.worker) if sys.argv.pop() == "quiet" else daemon.worker
java, python = socket.socketpair()
java.close()
print(worker(python, True))
"""


def hung_up(how: str) -> subprocess.CompletedProcess[str]:
    """Run a worker whose JVM has closed the socket. In development mode, every Python prints errors
    of files that it frees, as Python 3.13 always does.
    """
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-c", _HUNG_UP, how],
        check=False,
        capture_output=True,
        text=True,
        env={
            "PYTHONPATH": ":".join(sys.path),
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true",  # as Spark does
        },
    )


def test_worker_exits_quietly_when_the_jvm_closes_the_socket() -> None:
    quiet = hung_up("quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "1\n", "")
    assert "BrokenPipeError" in hung_up("as it is").stderr
