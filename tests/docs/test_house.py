"""The library stays easy to find one's way in: small folders, few parameters."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.pages import ROOT

LIBRARY = ROOT / "lib" / "winnow"
FILES = sorted(LIBRARY.rglob("*.py"))
FOLDERS = sorted({path.parent for path in FILES})
SCRIPTS = sorted(
    [
        *ROOT.glob("*.sh"),
        *(ROOT / "lib").glob("*.sh"),
        *(ROOT / "tests").rglob("*.sh"),
        ROOT / ".ci" / "run",
    ]
)
MOST_COLUMNS = 100
MOST_FILES = 25
LEAST_LONG = 400
MOST_SHARE = 0.15
MOST_PARAMETERS = 8
KERNEL_DECORATORS = {"njit", "kernel", "intrinsic"}
"""A kernel takes its columns one by one: numba compiles for arrays, not for objects."""


def test_no_room_holds_more_than_its_share_of_the_lines() -> None:
    sizes = Counter[str]()
    for path in FILES:
        sizes[path.relative_to(LIBRARY).parts[0]] += len(path.read_bytes().splitlines())
    most = MOST_SHARE * sizes.total()
    assert {room: lines for room, lines in sizes.items() if lines > most} == {}


def test_no_folder_holds_too_many_files() -> None:
    counts = {str(folder.relative_to(LIBRARY)): len([*folder.glob("*.py")]) for folder in FOLDERS}
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shell_scripts_wrap_at_100_columns(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    assert [f"{n}: {line}" for n, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS] == []


def test_no_file_is_long() -> None:
    lines = {
        str(path.relative_to(LIBRARY)): len(path.read_text(encoding="utf-8").splitlines())
        for path in FILES
    }
    assert {name: count for name, count in lines.items() if count >= LEAST_LONG} == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(LIBRARY)))
def test_every_folder_has_a_docstring(folder: Path) -> None:
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), f"{folder} needs a docstring in its __init__.py"


def test_no_function_has_many_parameters() -> None:
    """But those of the Python API, which are `checked`: they list every option by its name."""
    many = [
        f"{path.relative_to(LIBRARY)}: {function.name} has {count}"
        for path in FILES
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        and not function.name.startswith("_")
        and not _decorators(function) & (KERNEL_DECORATORS | {"checked"})
        and (count := _parameters(function)) > MOST_PARAMETERS
    ]
    assert many == []


def _decorators(function: ast.FunctionDef) -> set[str]:
    return {
        node.id
        for each in function.decorator_list
        for node in ast.walk(each)
        if isinstance(node, ast.Name)
    }


def _parameters(function: ast.FunctionDef) -> int:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len([one for one in every if one.arg not in {"self", "cls"}])


UNCLEAR = (
    "archiving Java's classes",
    "unknown how much is freed",
    "environment is not in the configuration",
    "found its lock held",
    "nothing tells the version",
    "be undone any more",
    "talk to nobody",
    "has no such option",
    "its high watermark is",
)
"""What users read and did not understand, and what was reworded."""


def test_phrases_that_users_did_not_understand_are_gone() -> None:
    files = [*FILES, *SCRIPTS, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
    assert [(name, p) for name, text in texts.items() for p in UNCLEAR if p in text] == []
