from pathlib import Path

import pytest

from tests.unit.cli.results import partition, run_of
from winnow.cli.options import CommandLine
from winnow.cli.outlets import check_outlets, tell_report, wants_report
from winnow.errors import UsageError


def test_clean_writes_a_report_and_plan_only_when_asked(tmp_path: Path) -> None:
    asked = str(tmp_path / "page.html")
    assert wants_report("clean", CommandLine(log_dirs=[]))
    assert not wants_report("plan", CommandLine(log_dirs=[]))
    assert wants_report("plan", CommandLine(log_dirs=[], report=asked))
    assert not wants_report("clean", CommandLine(log_dirs=[], report="none"))


@pytest.mark.parametrize("name", ["", "nowhere/page.html", "log/page.html"])
def test_unusable_report_path_is_refused_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(UsageError):
        check_outlets(CommandLine(log_dirs=[str(tmp_path / "log")], report=f"{tmp_path}/{name}"))


def test_last_line_names_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    tell_report(run_of(partition("a")), None, json=False)
    page = tmp_path / "winnow" / "reports" / "20261121T000000Z-0.html"
    assert capsys.readouterr().out == f"\nReport: {page}\n"
    assert page.is_file()


def test_with_json_the_report_is_named_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_report(run_of(partition("a")), f"{tmp_path}/a.html", json=True)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"winnow: report: {tmp_path}/a.html\n")


def test_unwritable_report_only_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell_report(run_of(partition("a")), f"{tmp_path}/gone/a.html", json=False)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("winnow: the report could not be written: expected a regular file")
    assert told.err.count("could not be written") == 1
