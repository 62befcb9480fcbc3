"""A file that an option names is read whole, or refused."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from winnow.storage.input_file import read_input


def test_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"k1\nk2\n")
    assert read_input(str(file), most=6) == b"k1\nk2\n"
    for path in (str(file), "/dev/zero"):
        with pytest.raises(OSError, match="File too large: more than 5 B"):
            read_input(path, most=5)


def test_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"k" * 100_000,))
    writer.start()
    assert read_input(str(pipe)) == b"k" * 100_000
    writer.join()
