"""What a scheduler's task makes of the result of a run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.cli.results import idle, in_json, left_alone, partition, run_of
from winnow import task_result
from winnow.cleaning.result import PartitionResult
from winnow.cli.text.json_output import failure_to_json, to_json
from winnow.task_result import left_lines, succeeds, summary


def result(*partitions: PartitionResult) -> Any:
    return in_json(to_json(run_of(*partitions)))


TIERED = replace(left_alone("t"), rule="S7.5", reason="remote.storage.enable is true")
DAMAGED = left_alone("u", error="a batch does not match its CRC")


def test_run_that_leaves_partitions_alone_succeeds_unless_their_code_fails_it() -> None:
    usual, bad = result(partition("a"), TIERED), result(partition("a"), TIERED, DAMAGED)
    assert usual["exit_code"] == bad["exit_code"] == 3
    assert succeeds(result(partition("a")))
    assert succeeds(usual)
    assert succeeds(bad)
    assert succeeds(usual, fail_on=["left-alone"])
    assert not succeeds(bad, fail_on=["left-alone"])


@pytest.mark.parametrize("code", [1, 2, 4, 5, 6, 143])
def test_failed_run_does_not_succeed(code: int) -> None:
    assert not succeeds(in_json(failure_to_json("in use", now=None, exit_code=code)))
    assert not succeeds(result(partition("a")) | {"exit_code": code})


def test_run_that_is_still_running_was_killed() -> None:
    assert not succeeds({"status": "running", "exit_code": None, "left_alone": []})


def test_summary_and_lines_show_what_was_left() -> None:
    found = result(partition("a"), TIERED, DAMAGED, idle("i"))
    told = summary(found)
    assert (told["status"], told["cleaned"], told["failed"]) == ("partial", 1, 1)
    assert told["left_alone"] == {"tiered": 1, "left-alone": 1}
    assert (told["exit_code"], told["cleaner_off"]) == (3, 0)
    assert list(left_lines(found)) == [
        "t-0 in /kafka was left alone (tiered): remote.storage.enable is true",
        "u-0 in /kafka was left alone (left-alone): a batch does not match its CRC",
    ]
    many = result(*(replace(TIERED, partition=n) for n in range(30)))
    assert list(left_lines(many))[-1] == "and 10 more: the file of --result has all"


def test_module_needs_nothing_but_python() -> None:
    """Airflow's environment has none of Winnow's dependencies."""
    program = f"import runpy; runpy.run_path({task_result.__file__!r})"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
