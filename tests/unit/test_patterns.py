"""Every regular expression ends in linear time, whatever text somebody else wrote.

For each pattern of the library, texts are made from the pattern itself: each of its repetitions is
pumped to 100 KB, with what comes before it and without, and the end never matches.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from re import _constants as of  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "lib" / "winnow"
CHARACTERS = 100_000
SECONDS = 1.0
LONGEST = {
    "logdir/names.py _MARKED_DIRECTORY": 255,  # the name of a file
    "cleaning/in_place.py _SEGMENT": 255,
    "cleaning/in_place.py _PARTITION_DIRECTORY": 255,
    "logdir/meta.py _CONTENT": 8_192,  # partition.metadata, of which no more is read
    "logdir/live/process.py _SECRET": 4_096,  # the command line of a process, likewise
    "runtime/failed_job.py _LOST": 1_000,
    "storage/hdfs/client.py _REFUSAL": 4_000,
}
"""Characters of the longest text that a pattern gets, where that is less."""
ENDS = {"words.py _USER_AND_SECRET": "@"}
"""What each text ends with that a pattern gets."""
METHODS = {"match", "fullmatch", "search", "sub", "findall", "finditer", "split"}
PROBES = " \n\t,:;=.-_/\\'\"${}[]()@?&<>!aAzZ0159"
BAD_ENDS = ("", "\0", "\n\0\n")


@cache
def patterns() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """All patterns, by file and name, and the methods that are called with texts."""
    found = {}
    for path in [*sorted(LIBRARY.rglob("*.py")), *sorted((ROOT / "jobs").glob("*.py"))]:
        text = path.read_text(encoding="utf-8")
        if "re." not in text:
            continue
        tree, file = ast.parse(text), str(path).removeprefix(f"{LIBRARY}/")
        used: dict[str, set[str]] = {}
        named = {
            id(node.value): node.targets[0].id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.setdefault(node.value.id, set()).add(node.attr)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            call = node.func
            if not isinstance(call.value, ast.Name) or call.value.id != "re":
                continue
            if (name := named.get(id(node))) is not None:
                module = ".".join(path.relative_to(ROOT / "lib").with_suffix("").parts)
                pattern = getattr(importlib.import_module(module), name)
                methods = frozenset(used.get(name, ())) & METHODS or METHODS
                found[f"{file} {name}"] = pattern, frozenset(methods)
            elif call.attr in METHODS:
                first = node.args[0]
                found[f"{file} {ast.unparse(first)}"] = (
                    re.compile(source(first)),
                    frozenset({call.attr}),
                )
            else:
                assert call.attr == "escape", f"{file}: a pattern without a name"
    return found


def source(node: ast.expr) -> str:
    """The text of a pattern. What is put into it is an `x`."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "x" for part in node.values
        )
    assert isinstance(node, ast.Constant)
    return str(node.value)


def members(items: Any) -> list[str]:
    """A few characters of a class."""

    def has(one: str) -> bool:
        negated = False
        for kind, value in items:
            if kind is of.NEGATE:
                negated = True
            elif kind is of.LITERAL:
                if ord(one) == value:
                    return not negated
            elif kind is of.RANGE:
                if value[0] <= ord(one) <= value[1]:
                    return not negated
            elif kind is of.CATEGORY:
                letter = {
                    of.CATEGORY_SPACE: r"\s",
                    of.CATEGORY_NOT_SPACE: r"\S",
                    of.CATEGORY_WORD: r"\w",
                    of.CATEGORY_NOT_WORD: r"\W",
                    of.CATEGORY_DIGIT: r"\d",
                    of.CATEGORY_NOT_DIGIT: r"\D",
                }[value]
                if re.match(letter, one):
                    return not negated
        return negated

    return [one for one in PROBES if has(one)] or ["\ud800"]


def samples(ops: Any, most: int = 4) -> list[str]:
    """A few texts that this part of a pattern matches, if no assertion is in the way."""
    texts = [""]
    for kind, value in ops:
        if kind is of.LITERAL:
            parts = [chr(value)]
        elif kind is of.NOT_LITERAL:
            parts = [one for one in PROBES if ord(one) != value]
        elif kind is of.ANY:
            parts = list(PROBES)
        elif kind is of.IN:
            parts = members(value)
        elif kind is of.BRANCH:
            parts = [text for branch in value[1] for text in samples(branch, 1)]
        elif kind is of.SUBPATTERN:
            parts = samples(value[3], most)
        elif kind is of.ATOMIC_GROUP:
            parts = samples(value, most)
        elif kind in {of.MAX_REPEAT, of.MIN_REPEAT, of.POSSESSIVE_REPEAT}:
            low, high, inner = value
            parts = [text * max(low, min(1, high)) for text in samples(inner, most)]
        else:
            parts = [""]
        shown = parts if len(parts) <= most else parts[:: max(1, len(parts) // most)][:most]
        texts = [before + part for before, part in product(texts, shown)][:most]
    return texts


def pumps(ops: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Each repetition: a text before it, and what it repeats."""
    for kind, value in ops:
        inner: list[Any] = []
        if kind in {of.MAX_REPEAT, of.MIN_REPEAT, of.POSSESSIVE_REPEAT}:
            _, high, sub = value
            inner = [sub]
            if high > 64:
                for unit in samples(sub, 12):
                    yield before, unit
        elif kind is of.SUBPATTERN:
            inner = [value[3]]
        elif kind is of.ATOMIC_GROUP:
            inner = [value]
        elif kind is of.BRANCH:
            inner = value[1]
        elif kind in {of.ASSERT, of.ASSERT_NOT}:
            inner = [value[1]]
        for one in inner:
            yield from pumps(one, before)
        before += samples([(kind, value)], 1)[0]


def hostile(pattern: re.Pattern[Any], longest: int) -> set[str]:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    ops = parser.parse(
        text, pattern.flags & ~(0 if isinstance(pattern.pattern, str) else re.UNICODE)
    )
    found = set()
    for before, unit in {*pumps(ops)}:
        for part in {unit, before + unit, unit + before, before}:
            if part:
                pumped = part * (longest // len(part))
                found |= {
                    (start + pumped)[:longest] + end for start in {"", before} for end in BAD_ENDS
                }
    letters = [one for one in dict.fromkeys(text) if one in PROBES and not one.isalnum()][:6]
    pairs = {one + other for one in letters for other in (*letters, "a")}
    for one in {*samples(ops), *pairs} - {""}:
        found |= {one * (longest // len(one)) + end for end in BAD_ENDS[:2]}
    return found


@pytest.mark.parametrize("name", sorted(patterns()))
def test_pattern_takes_linear_time(name: str) -> None:
    pattern, methods = patterns()[name]
    texts = {text + ENDS.get(name, "") for text in hostile(pattern, LONGEST.get(name, CHARACTERS))}

    def late(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, late)
    try:
        for text in texts:
            for method in sorted(methods):
                subject: Any = text if isinstance(pattern.pattern, str) else text.encode()
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                try:
                    arguments = ("", subject) if method == "sub" else (subject,)
                    result = getattr(pattern, method)(*arguments)
                    if method == "finditer":
                        list(result)
                except TimeoutError:
                    pytest.fail(f"{method} of {text[:60]!r}... takes more than {SECONDS} s")
                finally:
                    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)
