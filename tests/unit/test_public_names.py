"""`import winnow` offers what docs/python.md lists."""

from __future__ import annotations

from pathlib import Path

import pytest

import winnow

PACKAGE = Path(winnow.__file__).parent


@pytest.mark.parametrize("name", winnow.__all__)
def test_no_module_hides_a_public_name(name: str) -> None:
    """Importing `winnow.NAME` would replace the function, in the middle of a session."""
    assert not (PACKAGE / name).exists()
    assert not (PACKAGE / f"{name}.py").exists()
