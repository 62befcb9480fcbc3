"""What a run reports besides stdout. A failure to report never changes the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import winnow
from tests.unit.cli.results import idle, run_of
from tests.unit.metrics.listener import listening
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.cli.outlets import Outlets, check_outlets
from winnow.errors import UsageError, WinnowError
from winnow.report.write import render


class Context:
    """The part of Spark's context that is used."""

    def getConf(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        return {"spark.app.name": "x"}


SPARK: Any = SimpleNamespace(sparkContext=Context())


def request(tmp_path: Path, **targets: str) -> CommandLine:
    return CommandLine(log_dirs=[str(tmp_path / "logs")], **targets)  # type: ignore[arg-type]


@pytest.fixture
def _no_complaint(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    assert capsys.readouterr() == ("", "")


def events(path: Path) -> list[str]:
    return [json.loads(line)["eventType"] for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("_no_complaint")
def test_finished_run_writes_events_and_metrics(tmp_path: Path) -> None:
    asked = request(
        tmp_path, metrics=str(tmp_path / "w.prom"), openlineage=str(tmp_path / "e.jsonl")
    )
    told = Outlets(asked)
    told.began()
    with told.connected(SPARK):
        told.ended(run_of(idle("t")), 0)
    assert events(tmp_path / "e.jsonl") == ["START", "COMPLETE"]
    assert "winnow_partitions_count 1.0" in (tmp_path / "w.prom").read_text()


@pytest.mark.usefixtures("_no_complaint")
def test_failed_run_writes_a_fail_event(tmp_path: Path) -> None:
    told = Outlets(request(tmp_path, openlineage=str(tmp_path / "e.jsonl")))
    with pytest.raises(WinnowError, match="broken"), told.connected(SPARK):
        raise WinnowError("broken")
    assert events(tmp_path / "e.jsonl") == ["START", "FAIL"]


@pytest.mark.usefixtures("_no_complaint")
def test_failed_run_writes_its_exit_code(tmp_path: Path) -> None:
    told = Outlets(request(tmp_path, metrics=str(tmp_path / "w.prom")))
    told.failed("refused", None, 2)
    assert not (tmp_path / "w.prom").exists(), "its target was not checked yet"
    told.began()
    for code in (3, 130, 1):
        told.failed("refused", None, code)
        text = (tmp_path / "w.prom").read_text()
        assert f"winnow_last_run_exit_code {code}.0" in text
        assert "winnow_last_success_unixtime" not in text


@pytest.mark.usefixtures("_no_complaint")
def test_a_run_that_begins_keeps_the_metrics_of_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "w.prom"
    asked = request(tmp_path, metrics=str(path))

    def samples() -> dict[str, str]:
        lines = [one for one in path.read_text().splitlines() if not one.startswith("#")]
        return dict(one.rsplit(" ", 1) for one in lines)  # type: ignore[misc]

    first = Outlets(asked)
    first.began()
    assert set(samples()) == {"winnow_last_start_unixtime"}
    first.ended(run_of(idle("t")), 0)
    before = samples()
    Outlets(asked).began()
    after = samples()
    start, end = "winnow_last_start_unixtime", "winnow_last_run_unixtime"
    assert float(before[start]) <= float(before[end]) <= float(after[start])
    assert after | {start: ""} == before | {start: ""}


def test_unwritable_outlets_only_warn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = tmp_path / "missing"
    asked = request(tmp_path, metrics=str(nowhere / "w.prom"), openlineage=str(nowhere / "e.jsonl"))
    told = Outlets(asked)
    with told.connected(SPARK):
        told.ended(run_of(), 0)
    assert [line.split(":")[:2] for line in capsys.readouterr().err.splitlines()] == [
        ["winnow", " an OpenLineage event could not be written"],
        ["winnow", " an OpenLineage event could not be written"],
        ["winnow", " the metrics could not be written"],
    ]


def test_lost_event_and_lost_metrics_are_notes_of_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening() as stranger, listening(302, location=lambda _: stranger.url) as asked:
        url = asked.url.replace("//", "//user:secret@")
        told = Outlets(request(tmp_path, metrics=url, openlineage=url))
        told.began()
        with told.connected(SPARK):
            result = told.ended(run_of(idle("t")), 0)
    assert len(asked.requests) == 4
    assert stranger.requests == []
    metrics, event = result.notes  # each once, although two of each were lost
    assert "an OpenLineage event could not be sent: found status 302" in event
    assert "the metrics could not be written: found status 302" in metrics
    assert (result.exit_code, result.status) == (0, "done")
    text = capsys.readouterr().err + event + metrics
    assert text.count("a redirect to another server") == 6
    assert "secret" not in text
    assert render(result).count("a redirect to another server") == 2


def test_outlets_in_a_log_directory_are_refused(tmp_path: Path) -> None:
    for name, file in (("metrics", "w.prom"), ("openlineage", "e.jsonl")):
        with pytest.raises(UsageError, match="log directory"):
            check_outlets(request(tmp_path, **{name: str(tmp_path / "logs" / file)}))
    with pytest.raises(UsageError, match=r"\.prom"):
        check_outlets(request(tmp_path, metrics="w.txt"))


def test_reader_of_stdout_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    program = (
        "from winnow.cli.out import tell_page\n"
        "tell_page(['x' * 100] * 10_000)\n"
        "open('done', 'w').close()\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(winnow.__file__).parents[1])},
        stdout=writing,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, os.listdir(tmp_path)) == (0, ["done"])


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("leader-epoch-checkpoint", 1, "stdout can't be written"),
        ("missing", 2, "can't read this path"),
    ],
)
def test_stdout_on_a_full_disk_is_named(
    tmp_path: Path, more: list[str], name: str, code: int, told: str
) -> None:
    """Nothing else is full, so nothing else is blamed."""
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n0\n")
    program = "from winnow.cli.main import main; main()"
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program, "inspect", str(tmp_path / name), *more],
            env=os.environ | {"PYTHONPATH": str(Path(winnow.__file__).parents[1])},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr.count("winnow: ")) == (code, 1)
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("option", ["metrics", "openlineage"])
@pytest.mark.parametrize("url", ["http://[bad", "http://u:p@127.0.0.1:port"])
def test_malformed_url_is_refused_before_the_run(tmp_path: Path, option: str, url: str) -> None:
    with pytest.raises(UsageError, match="the URL can't be understood") as refused:
        check_outlets(request(tmp_path, **{option: url}))
    assert "u:p" not in str(refused.value)


@pytest.mark.parametrize("option", ["metrics", "openlineage"])
def test_typed_password_is_warned_of_and_one_in_a_file_of_options_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    file, url = tmp_path / "winnow.toml", "http://user:sekrit@127.0.0.1:9/"
    file.write_text(f'{option} = "{url}"\n')
    for words, warned in (
        ((f"--{option}", url), 1),
        (("--config", str(file)), 0),
        ((f"--{option}", "http://127.0.0.1:9/"), 0),
    ):
        assert run(["plan", "/nowhere", *words]) == 2
        error = " ".join(capsys.readouterr().err.split())
        assert error.count(f"every user of this machine can read the password in --{option}") == (
            warned
        )
        assert "no such directory" in error
        assert "sekrit" not in error
