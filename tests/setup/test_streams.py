"""What the caller of spark-submit sees on stdout and stderr, which Spark's own launcher mixes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from tests.spark.runs import new_log_dir

ROOT = Path(__file__).parents[2]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "lib"),
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}
# A mistyped directory: the way through both streams, without the seconds of a Spark context.
COMMAND = [
    SUBMIT,
    "--driver-java-options",
    f'"-Dlog4j2.configurationFile={ROOT}/conf/log4j2.properties"',
    ROOT / "jobs" / "winnow_job.py",
    "plan",
    "/no/such/directory",
    "--json",
]
SENTENCE = "winnow: no such directory (/no/such/directory)"


def check(stdout: str, stderr: str, code: int) -> None:
    assert code == 2
    assert json.loads(stdout)["status"] == "failed"
    assert SENTENCE in stderr


def test_pipes_separate_stdout_and_stderr() -> None:
    ended = subprocess.run(
        COMMAND, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120
    )
    check(ended.stdout, ended.stderr, ended.returncode)


def test_master_that_spark_does_not_know_is_one_sentence(tmp_path: Path) -> None:
    new_log_dir(tmp_path / "d")
    words = ["--master", "local[x]", *COMMAND[1:4], "plan", tmp_path / "d"]
    ended = subprocess.run(
        [SUBMIT, *words], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in ended.stderr
    assert "\tat " not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(
        "winnow: Spark did not start: found Could not parse Master URL: 'local[x]'"
    )
    assert ended.returncode == 1


def test_output_is_appended_to_files_that_others_write_too(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        stderr.write("before\n")
        stderr.flush()
        code = subprocess.run(
            COMMAND, env=ENVIRONMENT, stdout=stdout, stderr=stderr, check=False, timeout=120
        ).returncode
        stderr.write("after\n")
    check(out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"), code)
    lines = err.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert any(line.startswith(SENTENCE) for line in lines[1:-1])


def test_closed_stdout_reader_does_not_block_the_run() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run(
            COMMAND,
            env=ENVIRONMENT,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        os.close(write)
    assert ended.returncode == 2
    assert SENTENCE in ended.stderr


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_job_sees_the_callers_terminal(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "import sys\n"
        "from winnow.cli.streams import own_streams\n"
        "own_streams()\n"
        "sys.exit(40 + 2 * sys.stdout.isatty() + sys.stderr.isatty())\n",
        encoding="utf-8",
    )
    ours, theirs = pty.openpty()
    try:
        ended = subprocess.run(
            [SUBMIT, job],
            env=ENVIRONMENT,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=120,
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert ended.returncode == 42


def test_words_after_the_end_of_the_jvm_are_appended_to_the_callers_files(tmp_path: Path) -> None:
    """As under cron, if the system kills the JVM for lack of memory."""
    job = tmp_path / "job.py"
    job.write_text(
        "import os, signal, sys, time\n"
        "from winnow.cli.main import log_in_lines\n"
        "from winnow.cli.streams import own_streams\n"
        "own_streams()\n"
        "log_in_lines()\n"
        "print('before', flush=True)\n"
        "jvm = os.getppid()\n"
        "os.kill(jvm, signal.SIGKILL)\n"
        "while os.getppid() == jvm: time.sleep(0.01)\n"
        "print('after', flush=True)\n"
        "print('why', file=sys.stderr, flush=True)\n"
        f"open({str(tmp_path / 'ended')!r}, 'w').close()\n",
        encoding="utf-8",
    )
    with (tmp_path / "told").open("w") as told:
        words = [SUBMIT, job]
        code = subprocess.run(words, env=ENVIRONMENT, stdout=told, stderr=told, check=False)
    deadline = time.monotonic() + 30
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert code.returncode == -signal.SIGKILL
    lines = (tmp_path / "told").read_text(encoding="utf-8").splitlines()
    assert lines[-3:] == ["before", "after", "why"]


def test_job_without_its_jvm_reports_and_exits(tmp_path: Path) -> None:
    """Killing the JVM also closes its streams. The job writes to its own streams and does not
    wait.
    """
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        gateway = {
            "PYSPARK_GATEWAY_PORT": str(nobody.getsockname()[1]),
            "PYSPARK_GATEWAY_SECRET": "none",
        }
        # Behind a parent whose streams are files, as spark-submit's may be.
        parent = (
            "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)"
        )
        with (tmp_path / "told").open("w") as told:
            ended = subprocess.run(
                [sys.executable, "-c", parent, sys.executable, *COMMAND[3:]],
                env=ENVIRONMENT | gateway,
                stdout=told,
                stderr=told,
                check=False,
                timeout=60,
            )
    assert ended.returncode == 2
    assert SENTENCE in (tmp_path / "told").read_text(encoding="utf-8")


def test_java_starts_without_warnings() -> None:
    """Spark loads an incubator module, and Java says so at each start."""
    java = shutil.which("java")
    assert java is not None
    ended = subprocess.run(
        [ROOT / "spark-submit.sh", "plan", "/no/such/directory"],
        env={"PATH": f"/usr/bin:/bin:{Path(java).parent}", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 2
    assert [line for line in ended.stderr.splitlines() if not line.startswith(" ")] == [
        ended.stderr.splitlines()[0]
    ]
    assert ended.stderr.startswith(SENTENCE)


CHECKOUT = [str(ROOT / "spark-submit.sh")]
COMMAND_OF_WHEEL = [sys.executable, str(ROOT / "jobs" / "winnow_job.py")]


@pytest.mark.parametrize("entry", [CHECKOUT, COMMAND_OF_WHEEL], ids=["checkout", "wheel"])
def test_machine_without_loopback_gets_one_sentence(entry: list[str], tmp_path: Path) -> None:
    alone = ["unshare", "--net"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    (tmp_path / "meta.properties").write_text("version=1\n")
    ended = subprocess.run(
        [*alone, *entry, "plan", str(tmp_path)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    (sentence,) = ended.stderr.splitlines()
    assert "Spark's processes talk over 127.0.0.1, which can't be reached here" in sentence
    assert "bring up the loopback interface (ip link set lo up)" in sentence


def test_run_succeeds_where_the_host_name_does_not_resolve(tmp_path: Path) -> None:
    alone = ["unshare", "--net", "--uts"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces can be made here")
    new_log_dir(tmp_path / "d")
    script = 'ip link set lo up; hostname no.such.host; exec "$@"'
    ended = subprocess.run(
        [*alone, "sh", "-c", script, "sh", *CHECKOUT, "plan", str(tmp_path / "d"), "--quiet"],
        env=ENVIRONMENT | {"WINNOW_LEDGER": str(tmp_path / "ledger")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "\tat " not in ended.stderr
    assert ended.returncode == 0, ended.stderr


def test_java_writes_numbers_in_ascii_whatever_the_users_language(tmp_path: Path) -> None:
    script = 'source "$1"; find_java; exec "$java" $quiet_java -XshowSettings:locale -version'
    ended = subprocess.run(
        ["bash", "-c", script, "bash", ROOT / "lib" / "winnow" / "runtime" / "java.sh"],
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-Duser.language=fa"},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "default locale = English" in ended.stderr


def test_environment_of_another_spark_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "spark-env.sh").write_text("SPARK_HOME=/nowhere\necho loaded\nexit 9\n")
    ended = subprocess.run(
        [ROOT / "spark-submit.sh", "plan", "/no/such/directory", "--json"],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    check(ended.stdout, ended.stderr, ended.returncode)


def test_plain_start_without_the_library_says_what_to_set() -> None:
    without = [sys.executable, "-I", "-S", ROOT / "jobs" / "winnow_job.py", "plan"]
    done = subprocess.run(without, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("winnow: Python lacks winnow. ./spark-submit.sh sets up")
    assert f"PYTHONPATH={ROOT}/lib" in done.stderr
    assert "Traceback" not in done.stderr
