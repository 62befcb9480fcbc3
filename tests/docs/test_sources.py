"""docs/reference/sources.md is the table that the code follows: each source has a row that says
what proves it, and one that names the functions which decide it and the tests.
"""

from __future__ import annotations

import re

import pytest

from tests.pages import DOCS
from tests.test_semantics import (
    named_functions,
    named_tests,
)
from tests.test_semantics import (
    test_every_named_function_exists as check_function,
)
from tests.test_semantics import (
    test_every_named_test_exists as check_test,
)
from winnow.cli.options import SETTINGS, names_of

PAGE = (DOCS / "reference" / "sources.md").read_text(encoding="utf-8")
WHAT, WHERE = (
    [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]
    for table in re.findall(r"^\| source .*?(?=\n\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
)
HOLD_OTHERS = {"config", "environment"}
"""Options that name files with other options."""


def test_each_source_has_a_row_in_both_tables() -> None:
    assert [row[0] for row in WHERE] == [row[0] for row in WHAT]
    assert len(WHAT) > 10
    assert [row[0] for row in WHAT if not row[1]] == []


def test_each_row_names_functions_and_tests() -> None:
    lacking = [row[0] for row in WHERE if not named_functions(row[1]) or not named_tests(row[2])]
    assert lacking == []


@pytest.mark.parametrize("name", sorted({one for row in WHERE for one in named_functions(row[1])}))
def test_every_function_exists(name: str) -> None:
    check_function(name)


@pytest.mark.parametrize(
    ("file", "name"), sorted({one for row in WHERE for one in named_tests(row[2])})
)
def test_every_test_exists(file: str, name: str) -> None:
    check_test(file, name)


def test_every_option_with_settings_is_in_the_table() -> None:
    table = " ".join(cell for row in WHAT for cell in row)
    flags = {name: f"--{name.replace('_', '-')}" for name in names_of(SETTINGS)}
    left_out = {name for name, flag in flags.items() if flag.removesuffix("s") not in table}
    assert left_out == HOLD_OTHERS
    assert len(flags) > len(HOLD_OTHERS) + 5
