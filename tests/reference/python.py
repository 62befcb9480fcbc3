"""The public functions and classes of Python, in the words of their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from textwrap import dedent
from types import FunctionType
from typing import Any

import winnow
from tests.reference.markdown import code, table, wrapped
from tests.unit.test_arguments import CLASSES, PUBLIC, entries, sections
from winnow.errors import WinnowError


def functions() -> Iterator[str]:
    public: list[Any] = [*PUBLIC, *CLASSES]
    for described in sorted(public, key=lambda each: each.__qualname__.lower()):
        name, written = described.__qualname__, sections(described)
        package = "winnow." if name in winnow.__all__ else "winnow.api."
        yield from (f"## `{'' if '.' in name else package}{name}`", "")
        for paragraph in written[""].strip().split("\n\n"):
            yield from (*wrapped(paragraph), "")
        yield from _table("argument", entries(written.get("Args", "")))
        attributes = entries(written.get("Attributes", ""))
        yield from _table("attribute", {**attributes, **dict(_others(described))})
        if "Returns" in written:
            returns = " ".join(written["Returns"].split())
            yield from (*wrapped(f"Returns: {returns}"), "")
        for error, when in entries(written.get("Raises", "")).items():
            yield from (*wrapped(f"Raises `{error}`: {when}"), "")
        yield from ("```pycon", dedent(written["Example"]).strip(), "```", "")


def errors() -> Iterator[str]:
    kinds: list[type[WinnowError]] = [WinnowError, *_beneath(WinnowError)]
    yield from table(
        ("error", "", "exit code of the command line"),
        [
            (code(kind.__name__), " ".join(str(kind.__doc__).split()), str(kind.exit_code))
            for kind in kinds
        ],
    )


def _table(head: str, rows: Mapping[str, str]) -> Iterator[str]:
    if rows:
        yield from (*table((head, ""), [(code(name), about) for name, about in rows.items()]), "")


def _others(described: object) -> Iterator[tuple[str, str]]:
    """Properties of a class, and methods that have no section of their own."""
    for name, found in vars(described).items():
        own = isinstance(found, property | FunctionType) and found not in PUBLIC
        if isinstance(described, type) and own and not name.startswith("_"):
            words = " ".join((inspect.getdoc(found) or "").split()).removeprefix("Return ")
            yield name, words[0].upper() + words[1:]


def _beneath(kind: type[WinnowError]) -> Iterator[type[WinnowError]]:
    for each in kind.__subclasses__():
        if each.__module__ == WinnowError.__module__:
            yield each
            yield from _beneath(each)
