"""The rules that results name: those that the code gives as a reason, in the words of
docs/semantics.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.pages import DOCS, ROOT
from tests.reference.markdown import table

_RULE = re.compile(r"S[0-9]+\.[0-9]+")


def rules() -> Iterator[str]:
    words = dict(
        re.findall(
            r"^\| (S[0-9]+\.[0-9]+) \| (.*?) \|",
            (DOCS / "semantics.md").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    return table(
        ("rule", "in short"), [(rule, words[rule]) for rule in sorted(_named(), key=_place)]
    )


def _named() -> set[str]:
    """Whole strings of the code that are the number of a rule."""
    return {
        node.value
        for file in (ROOT / "lib" / "winnow").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _RULE.fullmatch(node.value)
    }


def _place(rule: str) -> list[int]:
    return [int(number) for number in rule[1:].split(".")]
