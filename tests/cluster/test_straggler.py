"""A task runs twice, on two hosts. The late copy resumes after the commit and cannot touch the
log.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.standalone import two_hosts
from tests.kill import log
from tests.kill.kills import RUN_SECONDS, Field, fresh, wait_for
from tests.kill.processes import DAEMON, Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_speculation_leaves_same_bytes_and_late_task_writes_nothing(
    field: Field, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.task.duration.threshold": "3s",
        "spark.executor.memory": "512m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    log_dir = fresh(field)
    with two_hosts(tmp_path) as cluster, (tmp_path / "output").open("wb") as output:
        options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        run = Run([*log.arguments(log_dir), "--master", cluster.master, *options], output=output)
        try:
            wait_for(run, log_dir, "staging")
            late = _stop_a_worker(run, tmp_path)
            code = run.wait(timeout_seconds=RUN_SECONDS)
            assert code == 0, (tmp_path / "output").read_text(errors="replace")[-3000:]
            done = log.content(log_dir)
            # Spark may have killed it when the other one was done.
            with suppress(ProcessLookupError):
                os.kill(late, signal.SIGCONT)
                time.sleep(1)
        finally:
            if run.processes():
                run.kill_all()
    assert log.content(log_dir) == done
    log.assert_same(log_dir, field.undisturbed)
    told = "".join(path.read_text(encoding="utf-8") for path in events.rglob("*") if path.is_file())
    assert '"Speculative":true' in told


def _stop_a_worker(run: Run, scratch: Path) -> int:
    """Stop the first Python worker seen on either host and return its process id."""
    while not run.ended:
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                here = os.readlink(f"/proc/{name}/cwd").startswith(str(scratch))
                command = Path(f"/proc/{name}/cmdline").read_text(errors="replace")
                parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
                forked_by = Path(f"/proc/{parent}/cmdline").read_text(errors="replace")
                if here and DAEMON in command and DAEMON in forked_by:
                    os.kill(int(name), signal.SIGSTOP)
                    return int(name)
            except (OSError, IndexError):
                continue
        time.sleep(0.005)
    raise AssertionError("the run ended before one was seen")
