"""Every error says what was expected or what to do. `CorruptLogError` is exempt: `verify` explains
what a partition's bytes should be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parents[2] / "lib" / "winnow"
ERRORS = {
    "LogDirInUseError",
    "NoSpaceError",
    "StoppedError",
    "UsageError",
    "VerificationError",
    "WinnowError",
}


def raised() -> Iterator[tuple[str, ast.Call]]:
    for file in sorted(LIB.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ERRORS
            ):
                yield f"{file.relative_to(LIB)}:{node.lineno}", node


RAISED = dict(raised())


@pytest.mark.parametrize("place", RAISED)
def test_error_says_what_was_expected_or_what_to_do(place: str) -> None:
    assert {"expected", "hint"} & {keyword.arg for keyword in RAISED[place].keywords}
