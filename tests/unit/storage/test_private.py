from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from winnow.storage.private import write_unsynced


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [Path.touch, link, os.mkfifo])
def test_a_file_takes_the_place_of_whatever_has_its_name(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "list")
    write_unsynced(str(tmp_path / "list"), b"new")
    (found,) = tmp_path.iterdir()
    assert (found.name, found.is_symlink(), found.read_bytes()) == ("list", False, b"new")
