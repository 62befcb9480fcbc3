from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.results import left_alone, partition, run_of
from winnow.cli import demo
from winnow.cli.call import Call, ended
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.cli.run import tell_result
from winnow.cli.signals import Ended
from winnow.errors import (
    CorruptLogError,
    LogDirInUseError,
    NoSpaceError,
    UsageError,
    VerificationError,
    WinnowError,
)
from winnow.runtime.stop import Stop


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WinnowError("w"), 1),
        (UsageError("w"), 2),
        (CorruptLogError("w"), 3),
        (VerificationError("w"), 4),
        (LogDirInUseError("w"), 5),
        (NoSpaceError("w"), 6),
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, "full"), 6),
        (OSError(errno.EIO, "bad sector"), 1),
        (OSError(errno.EFBIG, "too large"), 1),
        (PermissionError(errno.EACCES, "not yours", "/file"), 1),
        (Ended(signal.SIGTERM), 143),
        (ZeroDivisionError("w"), 1),
    ],
)
def test_raised_error_sets_the_exit_code_and_stdout_stays_json(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def verb(call: Call) -> int:
        call.now = 5
        raise error

    assert ended(verb, CommandLine(json=True)) == code
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["status"], told["now"], told["partitions"]) == ("failed", 5, [])
    assert f"winnow: {told['error']}\n" in err
    assert ("Traceback" in err) == isinstance(error, ZeroDivisionError)


def test_what_fails_while_a_signal_ends_the_run_is_no_news(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a call of Java whose connection was closed because of the signal."""

    def verb(call: Call) -> int:
        try:
            raise Ended(signal.SIGTERM)
        finally:
            raise OSError(f"of {call.request.json}")

    assert ended(verb, CommandLine()) == 143
    assert capsys.readouterr().err == "winnow: ended by SIGTERM\n"


def test_signal_after_the_result_changes_no_exit_code() -> None:
    """The result has the exit code, on stdout and in the file of --result."""

    def verb(call: Call) -> int:
        with call.signals.ask(Stop()):
            code = call.signals.exit_code(3)
            signal.raise_signal(signal.SIGTERM)
        return code

    assert ended(verb, CommandLine()) == 3


def test_failure_without_json_leaves_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    def verb(call: Call) -> int:
        raise UsageError(f"no sense in {call.request.log_dirs[0]}")

    assert ended(verb, CommandLine(log_dirs=["/kafka"])) == 2
    assert capsys.readouterr() == ("", "winnow: no sense in /kafka\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["plan"],
        ["plan", "/kafka", "--nope"],
        ["clean", "/kafka", "--only", "both"],
        ["clean", "/kafka", "--unclean-shutdown", "anyway"],
        ["clean", "/kafka", "--now"],
        [],
    ],
)
def test_malformed_arguments_are_usage_errors(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: winnow" in err or "Error: " in err


def test_invalid_values_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", str(tmp_path / "nope")]) == 2
    assert run(["plan", str(tmp_path), "--now", "tomorrow"]) == 2
    assert run(["clean", str(tmp_path), "--set", "no.such.key=1"]) == 2
    assert run(["plan", str(tmp_path), "--max-extra-space", "1GB"]) == 2
    assert run(["clean", str(tmp_path), "--free-at-least", "much"]) == 2
    assert run(["clean", str(tmp_path), "--free-at-least", "1GiB", "--keep-replaced"]) == 2
    assert run(["clean", str(tmp_path), "--free-at-least", "1GiB", "--only", "compaction"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 7


def test_usage_error_with_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "/kafka", "--json", "--nope"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "failed"
    assert "--nope" in told["error"]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["plan", "--help"], ["clean", "--help"], ["--version"]]
)
def test_help_exits_with_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().err == ""


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    run(["clean", "--help"])
    told = capsys.readouterr().out
    options = (
        "--topics --topic-configs --server-properties --set --topic-set --now --only "
        "--dry-run --json"
    )
    options += " --unclean-shutdown --max-extra-space --free-at-least"
    assert [option for option in options.split() if option not in told] == []


def test_demo_ignores_skipped_partitions_but_not_errors() -> None:
    assert demo.exit_code(run_of(partition("a"), left_alone("t"))) == 0
    assert demo.exit_code(run_of(partition("a"), left_alone("t", error="torn"))) == 3


def test_json_result_is_one_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    tell_result(run_of(partition("a")), CommandLine(json=True), exit_code=143)
    out, err = capsys.readouterr()
    assert (json.loads(out)["status"], json.loads(out)["exit_code"]) == ("done", 143)
    assert err == ""


def test_end_of_python_does_not_change_the_exit_code() -> None:
    """An abort while Python frees modules, as of a native library's thread that takes the GIL."""
    code = (
        "import os, sys\n"
        "class Native:\n"
        "    def __del__(self, abort=os.abort): abort()\n"
        "sys.native = Native()\n"
        "from winnow.cli.main import main\n"
        "sys.argv = ['winnow', '--version']\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "lib"},
    )  # fmt: skip
    assert ended.returncode == 0
    assert ended.stdout.startswith("winnow ")
    assert ended.stderr == ""
