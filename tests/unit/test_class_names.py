"""A class has a name of its own: a reader who searches for it finds one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

LIBRARY = Path("lib/winnow")


def test_no_public_class_name_exists_twice() -> None:
    homes = defaultdict[str, list[Path]](list)
    for path in LIBRARY.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path)
    assert len(homes) > 200
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
