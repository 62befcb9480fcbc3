"""Where the ledger is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.ledger.place import check_ledger, default_ledger, table_url


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/a"}, "/home/a/.local/state/winnow/ledger"),
        ({"HOME": "/"}, "/.local/state/winnow/ledger"),
        ({"HOME": "/home/a", "XDG_STATE_HOME": ""}, "/home/a/.local/state/winnow/ledger"),
        ({"HOME": "/home/a", "XDG_STATE_HOME": "/s"}, "/s/winnow/ledger"),
        ({"HOME": "/home/a", "XDG_STATE_HOME": "/s", "WINNOW_LEDGER": "s3a://b/l"}, "s3a://b/l"),
    ],
)
def test_default_is_the_users_state_unless_the_environment_says_else(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "WINNOW_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_ledger() == expected


@pytest.mark.parametrize(
    ("ledger", "expected"),
    [
        ("/a b/ledger/", "file:/a b/ledger/partitions-v1"),
        ("//a/ledger", "file:/a/ledger/partitions-v1"),
        ("file:///a/ledger", "file:/a/ledger/partitions-v1"),
        ("s3a://bucket/ledger/", "s3a://bucket/ledger/partitions-v1"),
    ],
)
def test_path_is_local(ledger: str, expected: str) -> None:
    assert table_url(ledger) == expected


def test_relative_path_is_resolved_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert table_url("ledger") == f"file:{tmp_path}/ledger/partitions-v1"


@pytest.mark.parametrize("inside", ["log", "log/ledger", "file:{}/log/ledger", "link/ledger"])
def test_ledger_in_a_log_directory_is_refused(tmp_path: Path, inside: str) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "log")
    ledger = inside.format(tmp_path) if ":" in inside else str(tmp_path / inside)
    with pytest.raises(UsageError, match="inside a log directory"):
        check_ledger(ledger, [str(tmp_path / "other"), str(tmp_path / "log")])


def test_ledger_beside_a_log_directory_is_accepted(tmp_path: Path) -> None:
    check_ledger(str(tmp_path / "log-ledger"), [str(tmp_path / "log")])
    check_ledger("hdfs://h/log/ledger", ["/log"])
