from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.in_command import output_in_command
from winnow.storage.private import write_unsynced


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [Path.touch, link, os.mkfifo])
def test_write_replaces_a_file_a_link_or_a_pipe(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "list")
    write_unsynced(str(tmp_path / "list"), b"new")
    (found,) = tmp_path.iterdir()
    assert (found.name, found.is_symlink(), found.read_bytes()) == ("list", False, b"new")


@pytest.mark.parametrize("size", [200, 20_000])
def test_failed_write_leaves_no_file(tmp_path: Path, size: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_unsynced(str(tmp_path / "keys"), bytes(size))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("umask", "then"), [("000", "002"), ("022", "022"), ("077", "077")])
def test_a_command_lets_no_other_user_change_its_files(umask: str, then: str) -> None:
    """Nor those of programs that it starts, such as Java."""
    assert output_in_command("umask", before=f"os.umask(0o{umask})")[-1] == f"0{then}"
