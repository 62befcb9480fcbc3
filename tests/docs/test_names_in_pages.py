"""Modules, functions and classes that pages name exist."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.pages import DOCS, ROOT

LIBRARY = ROOT / "lib" / "winnow"
ROOMS = {path.stem for path in LIBRARY.iterdir() if path.is_dir() or path.suffix == ".py"}
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")) if path.name != "CHANGELOG.md"
)
"""A changelog also names what is gone."""
FILES = (
    ".toml",
    ".gz",
)
FUNCTIONS_OF_THE_WALK = 25
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([\w.]+)(?:\([^`]*\))?`")
_COMMAND = re.compile(r"python3? -m\s(tests\.[\w.]*\w)")
_NAME = re.compile(r"[A-Za-z]\w*(\.\w+)*")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_the_library_in_a_page_exist(page: Path) -> None:
    named = {name for name in _names(page) if name.partition(".")[0] == "winnow" and "." in name}
    named = {name for name in named if not name.endswith(FILES)}
    assert sorted(name for name in named if not _exists(name.removeprefix("winnow."))) == []


def test_commands_of_the_tests_find_all_they_import() -> None:
    """Every `.venv/bin/python -m tests.…` in a page or a docstring, in an empty environment."""
    pages = [*PAGES, *(ROOT / "tests").rglob("*.md"), *(ROOT / "tests").rglob("*.py")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    named = {name for text in texts for name in _COMMAND.findall(text)}
    assert {"tests.kafka.lives", "tests.kill.run", "tests.reference"} <= named
    modules = {
        f"{name}.__main__" if (ROOT / name.replace(".", "/")).is_dir() else name for name in named
    }
    code = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    ended = subprocess.run(
        [sys.executable, "-c", code, *sorted(modules)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_every_name_in_architecture_exists() -> None:
    named = _names(DOCS / "architecture.md")
    dotted = {name for name in named if name.partition(".")[0] in ROOMS and "." in name}
    plain = {name for name in named if "." not in name and name not in ROOMS}
    assert len(dotted) >= FUNCTIONS_OF_THE_WALK
    assert sorted(name for name in dotted if not _exists(name)) == []
    assert sorted(plain - _verbs_and_definitions()) == []


def test_maps_of_the_house_name_every_folder_of_the_library() -> None:
    folders = {path.name for path in LIBRARY.iterdir() if (path / "__init__.py").is_file()}
    rooms = re.search(r"## The rooms\n.*?\n## ", (DOCS / "architecture.md").read_text(), re.DOTALL)
    assert rooms is not None
    named = {name for name in _CODE.findall(rooms[0]) if name in ROOMS}
    assert folders - named == set()
    assert {name for row in rooms[0].splitlines() for name in _first_cell(row)} <= ROOMS
    tree = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Commands")[0]
    assert {name for name in folders if f"{name}/" not in tree} == set()


def _first_cell(row: str) -> list[str]:
    return _CODE.findall(row.split("|")[1]) if row.startswith("| `") else []


def test_every_function_in_the_picture_exists() -> None:
    drawn = re.findall(r'class="c"[^>]*>(\w+)<', (DOCS / "images" / "pipeline.svg").read_text())
    assert drawn
    assert sorted({*drawn} - _verbs_and_definitions()) == []


def _names(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {name for name in _CODE.findall(text) if _NAME.fullmatch(name)}


def _exists(name: str) -> bool:
    """Whether a dotted name below `winnow` is a module, or something that a module or class of the
    library defines.
    """
    place, parts = LIBRARY, name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").is_file():
        place /= f"{parts.pop(0)}.py"
    elif parts:
        place /= "__init__.py"
    return not parts or (len(parts) <= 2 and all(part in _defined(place) for part in parts))


@cache
def _defined(path: Path) -> frozenset[str]:
    """Names that a module and its classes define or import."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {node.value} if path.name == "__init__.py" else set()
    return frozenset(names)


@cache
def _verbs_and_definitions() -> frozenset[str]:
    verbs = {path.stem for path in (LIBRARY / "cli").glob("*.py")} | {"plan", "clean"}
    return frozenset(verbs).union(*(_defined(path) for path in LIBRARY.rglob("*.py")))
