"""Files are cut in place, and never made longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import CorruptLogError
from winnow.storage.local import LocalStorage


def test_file_is_cut_to_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"abcdef")
    LocalStorage().truncate(f"{tmp_path}/log", 2)
    assert (tmp_path / "log").read_bytes() == b"ab"


def test_shorter_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"ab")
    with pytest.raises(CorruptLogError, match="shorter"):
        LocalStorage().truncate(f"{tmp_path}/log", 3)
    assert (tmp_path / "log").read_bytes() == b"ab"


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"abcdef")
    (tmp_path / "log").symlink_to(tmp_path / "target")
    with pytest.raises(CorruptLogError):
        LocalStorage().truncate(f"{tmp_path}/log", 2)
    assert (tmp_path / "target").read_bytes() == b"abcdef"


def test_file_with_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "backup").write_bytes(b"abcdef")
    (tmp_path / "log").hardlink_to(tmp_path / "backup")
    with pytest.raises(CorruptLogError, match="found 2 names"):
        LocalStorage().truncate(f"{tmp_path}/log", 2)
    assert (tmp_path / "backup").read_bytes() == b"abcdef"
