"""The public functions of Python, in the words of their docstrings."""

from __future__ import annotations

from collections.abc import Iterator

import winnow
from tests.reference.markdown import code, table, wrapped
from tests.unit.test_arguments import PUBLIC, entries, sections


def functions() -> Iterator[str]:
    for function in sorted(PUBLIC, key=lambda each: each.__qualname__.lower()):
        name, written = function.__qualname__, sections(function)
        package = "winnow." if name in winnow.__all__ else "winnow.api."
        yield from (f"## `{'' if '.' in name else package}{name}`", "")
        for paragraph in written[""].strip().split("\n\n"):
            yield from (*wrapped(paragraph), "")
        arguments = entries(written["Args"]).items()
        yield from table(
            ("argument", ""), [(code(argument), about) for argument, about in arguments]
        )
        yield ""
        if "Returns" in written:
            returns = " ".join(written["Returns"].split())
            yield from (*wrapped(f"Returns: {returns}"), "")
        for error, when in entries(written["Raises"]).items():
            yield from (*wrapped(f"Raises `{error}`: {when}"), "")
