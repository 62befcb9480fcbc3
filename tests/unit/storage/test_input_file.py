"""A file that an option names is read whole, or refused."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from winnow.storage import input_file
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


def test_pipe_that_a_program_writes_to_slowly_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        time.sleep(0.1)
        with pipe.open("wb", buffering=0) as file:
            for line in (b"k1\n", b"k2\n"):
                file.write(line)
                time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_input(str(pipe)) == b"k1\nk2\n"
    writer.join()


@pytest.mark.parametrize("writes", [b"", b"k"], ids=["nobody writes", "somebody always writes"])
def test_pipe_without_end_is_an_error_after_a_time(
    writes: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_file, "MOST_SECONDS", 0.3)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = threading.Event()

    def write() -> None:
        with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            while not done.wait(0.05):
                file.write(writes)

    writer = threading.Thread(target=write)
    if writes:
        writer.start()
    with pytest.raises(OSError, match="no end of it within"):
        read_input(str(pipe))
    done.set()
    if writes:
        writer.join()


def test_directory_and_missing_file_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(OSError, match=str(path)):
            read_input(str(path))
