"""What a run reports besides stdout. A failure to report never changes the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.results import idle, run_of
from winnow.cli.options import CommandLine
from winnow.cli.outlets import check_outlets, outlets
from winnow.cli.run import write_result
from winnow.cli.session import ContextOnly
from winnow.errors import StoppedError, UsageError, WinnowError


class Context:
    """The part of Spark's context that is used."""

    def getConf(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        return {"spark.app.name": "x"}


SPARK: Any = ContextOnly(Context())  # type: ignore[arg-type]


def request(tmp_path: Path, **targets: str) -> CommandLine:
    return CommandLine(log_dirs=[str(tmp_path / "logs")], **targets)  # type: ignore[arg-type]


def events(path: Path) -> list[str]:
    return [json.loads(line)["eventType"] for line in path.read_text().splitlines()]


def test_finished_run_writes_events_and_metrics(tmp_path: Path) -> None:
    asked = request(
        tmp_path, metrics=str(tmp_path / "w.prom"), openlineage=str(tmp_path / "e.jsonl")
    )
    complaints: list[str] = []
    with outlets(asked, SPARK, complaints.append) as told:
        told.ended(run_of(idle("t")))
    assert events(tmp_path / "e.jsonl") == ["START", "COMPLETE"]
    assert "winnow_partitions_count 1.0" in (tmp_path / "w.prom").read_text()
    assert complaints == []


def test_failed_run_writes_a_fail_event(tmp_path: Path) -> None:
    with (
        pytest.raises(WinnowError, match="broken"),
        outlets(request(tmp_path, openlineage=str(tmp_path / "e.jsonl")), SPARK, pytest.fail),
    ):
        raise WinnowError("broken")
    assert events(tmp_path / "e.jsonl") == ["START", "FAIL"]


def test_failed_run_writes_its_exit_code(tmp_path: Path) -> None:
    asked = request(tmp_path, metrics=str(tmp_path / "w.prom"))
    for error, code in ((StoppedError("stop"), 3), (KeyboardInterrupt(), 130), (OSError(), 1)):
        with pytest.raises(type(error)), outlets(asked, SPARK, pytest.fail):
            raise error
        text = (tmp_path / "w.prom").read_text()
        assert f"winnow_last_run_exit_code {code}.0" in text
        assert "winnow_last_success_unixtime" not in text


def test_unwritable_outlets_only_warn(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing"
    asked = request(tmp_path, metrics=str(nowhere / "w.prom"), openlineage=str(nowhere / "e.jsonl"))
    complaints: list[str] = []
    with outlets(asked, SPARK, complaints.append) as told:
        told.ended(run_of())
    assert [words.partition(":")[0] for words in complaints] == [
        "an OpenLineage event could not be sent",
        "an OpenLineage event could not be sent",
        "the metrics could not be written",
    ]


def test_outlets_in_a_log_directory_are_refused(tmp_path: Path) -> None:
    for name, file in (("metrics", "w.prom"), ("openlineage", "e.jsonl")):
        with pytest.raises(UsageError, match="log directory"):
            check_outlets(request(tmp_path, **{name: str(tmp_path / "logs" / file)}))
    with pytest.raises(UsageError, match=r"\.prom"):
        check_outlets(request(tmp_path, metrics="w.txt"))


def test_result_is_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_result(run_of(idle("t")), str(tmp_path / "result.json"))
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    assert json.loads((tmp_path / "result.json").read_text())["partitions"][0]["topic"] == "t"
    write_result(run_of(), str(tmp_path / "missing" / "result.json"))
    assert "the result could not be written" in capsys.readouterr().err
    with pytest.raises(UsageError, match="log directory"):
        check_outlets(request(tmp_path, result=str(tmp_path / "logs" / "r.json")))
