"""A scheduler stops a run: it sends a signal to the process it started, which is the JVM."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kill import log
from tests.kill.kills import wait_for
from tests.kill.processes import DAEMON, STANDBY, Run
from tests.spark.runs import stray_files
from winnow.errors import StoppedError


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    log.make(tmp_path / "log-dir")
    return tmp_path


def is_pending(number: signal.Signals, pid: int) -> bool:
    """Whether a process that does not run has got a signal."""
    (mask,) = re.findall(r"ShdPnd:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(mask, 16) >> number - 1 & 1)


def stop(pid: int) -> None:
    """Stop a process, and wait until all of its threads have stopped. A thread that was waiting for
    a core takes SIGTERM before an earlier SIGSTOP: it has the lower number.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while any(map(is_running, Path(f"/proc/{pid}/task").glob("*/status"))):
        assert time.monotonic() < deadline, Path(f"/proc/{pid}/status").read_text()
        time.sleep(0.01)


def is_running(thread: Path) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return re.search(r"^State:\s*[TXZ]", thread.read_text(), re.MULTILINE) is None
    return False


def test_jvm_passes_the_signal_on_and_ends_as_the_job(scratch: Path) -> None:
    log_dir = scratch / "log-dir"
    before = log.content(log_dir)
    with (scratch / "output").open("wb") as output:
        run = Run([*log.arguments(log_dir), "--json"], output=output)
        wait_for(run, log_dir, "staging")
        (job,) = run.drivers()
        stop(job.pid)  # or all may be done when the signal comes
        try:
            os.kill(run.pid, signal.SIGTERM)
            deadline = time.monotonic() + 30
            while not is_pending(signal.SIGTERM, job.pid):
                assert time.monotonic() < deadline, Path(f"/proc/{job.pid}/status").read_text()
                time.sleep(0.05)
        finally:
            os.kill(job.pid, signal.SIGCONT)
        code = run.wait(timeout_seconds=60)
        run.wait_until_gone()
    assert code == 128 + signal.SIGTERM
    text = (scratch / "output").read_text()
    told = json.loads(text[text.index("{\n") : text.rindex("}") + 1])
    assert (told["status"], told["exit_code"]) == ("partial", code)
    left = {
        f"{p['topic']}-{p['partition']}"
        for p in told["partitions"]
        if "it got SIGTERM" in p["reason"]
    }
    assert {"c-tomb-0", "t-long-0"} <= left
    after = log.content(log_dir)
    changed = {
        name.partition("/")[0] for name in {*before, *after} if before.get(name) != after.get(name)
    }
    assert not changed & left
    assert stray_files(log_dir) == []


def test_spark_stops_only_after_the_job(scratch: Path) -> None:
    """However slowly the job reacts. If Spark stopped first, the job would fail."""
    log_dir = scratch / "log-dir"
    with (scratch / "output").open("wb") as output:
        run = Run(log.arguments(log_dir), output=output)
        wait_for(run, log_dir, "staging")
        (job,) = run.drivers()
        stop(job.pid)
        try:
            os.kill(run.pid, signal.SIGTERM)
            time.sleep(3)  # Spark is gone within one
            workers = run.workers()
            assert all(STANDBY in worker.command for worker in workers)
        finally:
            os.kill(job.pid, signal.SIGCONT)
        assert run.wait(timeout_seconds=60) == 128 + signal.SIGTERM
        run.wait_until_gone()
    assert workers
    assert "it got SIGTERM" in (scratch / "output").read_text()


@pytest.fixture
def pipe(scratch: Path) -> Path:
    os.mkfifo(scratch / "configs")
    return scratch / "configs"


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to the JVM", "to all"])
def test_signal_while_settings_are_read_ends_everything(
    scratch: Path, pipe: Path, send: Callable[[int, int], None]
) -> None:
    """The JVM passes no signal on yet: it ended, and its job read for minutes."""
    with (scratch / "output").open("wb") as output:
        run = Run(["plan", str(scratch / "log-dir"), "--topic-configs", str(pipe)], output=output)
        with pipe.open("wb"):  # waits for the job, which waits for an end of the pipe
            send(run.pid, signal.SIGTERM)
            sent = time.monotonic()
            assert run.wait(timeout_seconds=10) in {128 + signal.SIGTERM, -signal.SIGTERM}
            run.wait_until_gone()
            assert time.monotonic() - sent < 5
    assert "Traceback" not in (scratch / "output").read_text()


def test_time_limit_ends_a_run_that_reads_settings(scratch: Path, pipe: Path) -> None:
    with (scratch / "output").open("wb") as output:
        log_dir = str(scratch / "log-dir")
        run = Run(["plan", log_dir, "--topic-configs", str(pipe), "--timeout", "1s"], output=output)
        with pipe.open("wb"):
            began = time.monotonic()
            assert run.wait(timeout_seconds=10) == StoppedError.exit_code
            run.wait_until_gone()
            assert time.monotonic() - began < 5
    assert "its time limit of 1 s has passed" in (scratch / "output").read_text()


@pytest.mark.parametrize(("verb", "forked_by"), [("recover", DAEMON), ("verify", STANDBY)])
def test_signal_ends_a_read_only_verb_with_one_message(
    scratch: Path, verb: str, forked_by: str
) -> None:
    """`recover` starts its JVM itself, spark-submit starts the one of `verify`. A service manager
    sends the signal to all processes at once.
    """
    log_dir = scratch / "log-dir"
    (log_dir / ".kafka_cleanshutdown").unlink()
    with (scratch / "output").open("wb") as output:
        run = Run([verb, str(log_dir)], output=output)
        while not (at_work := [one for one in run.workers() if forked_by in one.command]):
            assert not run.ended, (scratch / "output").read_text()
            time.sleep(0.01)
        for worker in at_work:
            with suppress(FileNotFoundError, ProcessLookupError):  # it was replaced meanwhile
                stop(worker.pid)  # or all may be done when the signal comes
        time.sleep(4 if verb == "recover" else 0.3)  # its JVM starts after the worker
        os.killpg(run.pid, signal.SIGTERM)
        for worker in at_work:
            with suppress(ProcessLookupError):  # Java may have killed it
                os.kill(worker.pid, signal.SIGCONT)
        assert run.wait(timeout_seconds=60) == 128 + signal.SIGTERM
        run.wait_until_gone()
    told = (scratch / "output").read_text().splitlines()
    assert told[-1] == "winnow: ended by SIGTERM"
    # Lines of the set-up and of the progress, whatever the machine is busy with: no traceback, no
    # message of Spark's, no guess about memory.
    assert all(line.startswith("winnow: ") for line in told), told
    assert not any(word in line for line in told for word in ("memory", "py4j", "Error")), told
