"""A file that an option names has a largest size. A larger one is refused with a sentence, without
the memory that it would take.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from winnow.cli.main import run
from winnow.storage.input_file import MOST_SETTINGS

TWO_GIB = 2 << 30


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run([*words, "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert len(error) < 15_000
    return " ".join(error.split())


def sparse(path: Path) -> str:
    path.touch()
    os.truncate(path, TWO_GIB)
    return str(path)


@pytest.mark.parametrize(
    ("option", "most"), [("--topic-configs", "64.0 MiB"), ("--server-properties", "4.0 MiB")]
)
@pytest.mark.parametrize("kind", ["sparse", "device"])
def test_settings_without_end_are_refused(
    option: str, most: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sparse(tmp_path / "large") if kind == "sparse" else "/dev/zero"
    error = refused(capsys, "plan", str(tmp_path), option, file)
    assert f"can't read the file of {option}" in error
    assert f"more than {most}" in error
    assert file in error


def test_a_pipe_without_end_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def fill() -> None:
        with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            for _ in range(2 * MOST_SETTINGS >> 20):
                file.write(bytes(1 << 20))

    writer = threading.Thread(target=fill)
    writer.start()
    error = refused(capsys, "plan", str(tmp_path), "--topic-configs", str(pipe))
    assert "more than 64.0 MiB" in error
    writer.join()


def test_two_gib_of_settings_take_little_memory(tmp_path: Path) -> None:
    """In a process of its own: what a process has taken at most is never less again."""
    code = (
        "import resource, sys\n"
        "from winnow.cli.inputs import read_text\n"
        "from winnow.errors import UsageError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for file in (sys.argv[1], '/dev/zero'):\n"
        "    try:\n"
        "        read_text(file, option='--topic-configs')\n"
        "        sys.exit('it was read')\n"
        "    except UsageError:\n"
        "        pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, sparse(tmp_path / "large")],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "lib"},
    )  # fmt: skip
    assert int(done.stdout) * 1024 < 3 * MOST_SETTINGS


def test_a_long_line_of_settings_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "configs"
    file.write_bytes(b"\x00" * (1 << 20))
    assert "(" in refused(capsys, "plan", str(tmp_path), "--topic-configs", str(file))
