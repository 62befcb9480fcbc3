"""Rows of the matrix find the Python they are about on the PATH, or where they are told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.setup.machines import Row, of_python, with_python

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
FULL = f"{HERE}.{sys.version_info.micro}"


def script_of(row: Row | None) -> str:
    assert row is not None
    assert row.machine == f"Python {FULL}"
    return row.script


def test_interpreter_is_found_by_path_or_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert with_python(of_python(HERE), []) is None
    assert with_python(of_python(HERE), ["/nowhere"]) is None
    assert with_python(of_python("3.1"), [sys.executable]) is None
    assert script_of(with_python(of_python(HERE), [sys.executable])).startswith("export PYTHON=/")
    (tmp_path / f"python{HERE}").symlink_to(sys.executable)
    assert script_of(with_python(of_python(HERE), ["/nowhere"])).startswith("export PYTHON=/")


def test_shim_without_that_version_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    shim = tmp_path / f"python{HERE}"
    shim.write_text("#!/bin/sh\necho 'no such version' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert with_python(of_python(HERE), []) is None
