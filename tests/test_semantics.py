"""docs/semantics.md is true: its functions and tests exist, and it has every rule that code cites
and all 99 cases.
"""

from __future__ import annotations

import ast
import importlib
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
LIB = TESTS.parent / "lib"
DOCUMENT = (TESTS.parent / "docs" / "semantics.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in DOCUMENT.splitlines()
    if line.startswith("| ")
]
RULES = {row[0]: row for row in ROWS if re.fullmatch(r"S\d+\.\d+", row[0])}
CASES = [row for row in ROWS if row[0].isdecimal()]
HEADINGS = re.findall(r"^## (S\d+) ", DOCUMENT, re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
FUNCTION = re.compile(
    r"(?:api|cleaning|cli|kafka_log|logdir|policy|start|state|storage|verbs|wire)(?:\.\w+)+"
)
TEST_FILE = re.compile(r"[\w/]+\.py")
CITED = re.compile(r"\bS\d+(?:\.\d+)?\b")
SUPPRESSION = re.compile(r"# noqa: [^#\n]*")


def named_functions(text: str) -> set[str]:
    return {
        code
        for code in CODE.findall(text)
        if FUNCTION.fullmatch(code) and not TEST_FILE.fullmatch(code)
    }


def named_tests(text: str) -> set[tuple[str, str]]:
    """Return (file, name) of each named test. A name belongs to the file before it; without one,
    the file is "".
    """
    found: set[tuple[str, str]] = set()
    file = ""
    for code in CODE.findall(text):
        if TEST_FILE.fullmatch(code):
            file = code
        elif code.startswith("test_"):
            found.add((file, code))
    return found


@cache
def defined_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("name", sorted(named_functions(DOCUMENT)))
def test_every_named_function_exists(name: str) -> None:
    parts = ["winnow", *name.split(".")]
    for end in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        assert callable(found)
        return
    pytest.fail(f"no module has {name}")


@pytest.mark.parametrize(("file", "name"), sorted(named_tests(DOCUMENT)))
def test_every_named_test_exists(file: str, name: str) -> None:
    assert file, f"{name} has no file before it"
    assert any(fnmatchcase(defined, name) for defined in defined_in(file)), f"{file} has no {name}"


def test_every_rule_has_a_function_and_a_test() -> None:
    assert len(RULES) > 50
    lacking = [
        rule
        for rule, row in RULES.items()
        if not named_functions(row[2]) or not named_tests(row[3])
    ]
    assert lacking == []


def test_every_rule_cited_in_code_is_documented() -> None:
    known = {*HEADINGS, *RULES}
    cited = {
        (str(file.relative_to(LIB)), rule)
        for file in LIB.rglob("*.py")
        for rule in CITED.findall(SUPPRESSION.sub("", file.read_text(encoding="utf-8")))
    }
    assert len({rule for _, rule in cited}) > 40
    assert {(file, rule) for file, rule in cited if rule not in known} == set()


def test_rules_are_listed_once_in_order_under_their_heading() -> None:
    numbers = re.findall(r"^\| (S\d+\.\d+) \|", DOCUMENT, re.MULTILINE)
    assert numbers == sorted(set(numbers), key=lambda rule: tuple(map(int, rule[1:].split("."))))
    assert [f"S{n}" for n in range(1, 10)] == HEADINGS
    assert {rule.partition(".")[0] for rule in numbers} == set(HEADINGS)


def test_all_cases_are_listed_once_in_order() -> None:
    assert [int(row[0]) for row in CASES] == list(range(1, 100))


@pytest.mark.parametrize("row", CASES, ids=lambda row: row[0])
def test_every_case_has_a_test_or_a_reason(row: list[str]) -> None:
    _, words, answer = row
    assert words
    assert named_tests(answer) or answer.startswith(("does not apply: ", "not yet: "))


def test_tests_named_after_a_case_are_listed_in_the_document() -> None:
    """So that the tests of a case can be found in the document."""
    unnamed = []
    for file in TESTS.rglob("test_*.py"):
        path = str(file.relative_to(TESTS))
        for name in defined_in(path):
            numbers = re.match(r"test_cases?((?:_(?:and_)?\d+)+)_", name)
            for number in re.findall(r"\d+", numbers[1]) if numbers else ():
                answer = CASES[int(number) - 1][2]
                if not any(
                    at == path and fnmatchcase(name, pattern) for at, pattern in named_tests(answer)
                ):
                    unnamed.append((number, path, name))
    assert unnamed == [], "docs/semantics.md lacks these at their cases"
