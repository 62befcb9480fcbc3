"""The file of --result tells of the last run that has begun, and of no other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.disks import MIB, disk_or_skip
from tests.pages import DOCS
from tests.unit.cli.results import idle, run_of
from winnow.cli.options import CommandLine
from winnow.cli.outlets import Outlets
from winnow.cli.text.json_output import to_json
from winnow.errors import UsageError

SCHEMA = json.loads((DOCS / "reference" / "result.schema.json").read_text())


def told(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(read)
    return read


def test_earlier_result_is_replaced_when_a_run_begins_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "last.json"
    path.write_text('{"status": "done"}')
    file = Outlets(CommandLine(result=str(path)))
    file.begin_file(())
    running = told(path)
    assert (running["status"], running["exit_code"], running["pid"]) == (
        "running",
        None,
        os.getpid(),
    )
    file.end_file(to_json(run_of(idle("t"))) | {"exit_code": 10})
    ended = told(path)
    assert (ended["status"], ended["exit_code"], ended["partitions"][0]["topic"]) == (
        "done",
        10,
        "t",
    )
    assert running["started_at"] == ended["started_at"] <= ended["ended_at"]
    again = Outlets(CommandLine(result=str(path)))
    again.begin_file(())
    again.failed("in use", None, 5)
    failed = told(path)
    assert (failed["status"], failed["exit_code"], failed["error"]) == ("failed", 5, "in use")
    assert [one.name for one in tmp_path.iterdir()] == ["last.json"]


def test_run_that_has_not_begun_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "last.json"
    path.parent.mkdir()
    file = Outlets(CommandLine(result=str(path)))
    with pytest.raises(UsageError, match="log directory"):
        file.begin_file([str(path.parent)])
    file.failed("refused", None, 2)
    assert not path.exists()


def test_earlier_result_is_removed_where_the_disk_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        path = disk / "last.json"
        path.write_text('{"status": "done"}')
        with suppress_full(), (disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(MIB)):
                pass
        file = Outlets(CommandLine(result=str(path)))
        file.begin_file(())
        assert "the result could not be written" in capsys.readouterr().err
        assert [one.name for one in disk.iterdir()] == ["ballast"]
        (disk / "ballast").unlink()
        file.end_file(to_json(run_of(idle("t"))) | {"exit_code": 0})
        assert told(path)["status"] == "done"


def suppress_full() -> Any:
    return pytest.raises(OSError, match="No space left")


def test_result_that_can_not_be_written_at_the_end_does_not_look_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        file = Outlets(CommandLine(result=str(disk / "last.json")))
        file.begin_file(())
        with suppress_full(), (disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(MIB)):
                pass
        file.end_file(to_json(run_of(*(idle(f"t{i}") for i in range(50)))) | {"exit_code": 0})
        assert "No space left" in capsys.readouterr().err
        assert told(disk / "last.json")["status"] == "running"
        assert sorted(one.name for one in disk.iterdir()) == ["ballast", "last.json"]
