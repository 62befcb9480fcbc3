from pathlib import Path

import pytest

from tests.unit.cli.results import partition, run_of
from winnow.errors import UsageError, WinnowError
from winnow.report.write import render, write_report
from winnow.resources import user_state_dir


def test_report_replaces_an_older_page(tmp_path: Path) -> None:
    run = run_of(partition("orders"))
    page = tmp_path / "run.html"
    page.write_text("an older one")
    write_report(run, page)
    assert page.read_text(encoding="utf-8") == render(run)
    assert [file.name for file in tmp_path.iterdir()] == ["run.html"]


@pytest.mark.parametrize(
    "name", ["run.html", "t-0/run.html", "../log/t-0/../run.html", "link/run.html"]
)
def test_report_in_a_log_directory_is_refused(tmp_path: Path, name: str) -> None:
    log_dir = tmp_path / "log"
    (log_dir / "t-0").mkdir(parents=True)
    (log_dir / "link").symlink_to(log_dir)
    run = run_of(partition("t", log_dir=str(log_dir)))
    with pytest.raises(UsageError, match="can't be inside a log directory"):
        write_report(run, log_dir / name)
    assert [path.name for path in log_dir.rglob("*.html*")] == []


def test_failed_write_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(WinnowError, match="taken"):
        write_report(run_of(partition("t")), tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("state", "place"),
    [("/state", "/state"), ("", "/home/me/.local/state"), ("relative", "/home/me/.local/state")],
)
def test_reports_directory_is_in_the_users_state(
    monkeypatch: pytest.MonkeyPatch, state: str, place: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_STATE_HOME", state)
    assert str(user_state_dir("reports")) == f"{place}/winnow/reports"


def test_error_without_a_home_names_the_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(UsageError, match=r"no directory for reports.*no home.*XDG_STATE_HOME"):
        user_state_dir("reports")
