"""How Spark's Python workers end."""

import subprocess
import sys

_HUNG_UP = """
import socket, sys
import pyspark.worker
from pyspark import daemon
from winnow.runtime.hung_up import until_hung_up

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
