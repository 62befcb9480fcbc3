"""Every public function checks its arguments by their declared types, before it does anything."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, Literal

import pytest

import winnow
from winnow import api
from winnow.api import Plan, Result
from winnow.arguments import _check, _parameters, checked, words
from winnow.errors import UsageError
from winnow.policy.sources import Settings
from winnow.runtime.progress import Silence


class _Nothing:
    """Fits no declared type."""


def fits(found: object, kind: object) -> bool:
    try:
        _check("it", found, kind)
    except UsageError:
        return False
    return True


SAMPLES: Mapping[str, object] = {
    "spark": SimpleNamespace(sparkContext=None),
    "settings": Settings(),
    "progress": Silence(),
    "now": 1,
    "plans": {},
}


PUBLIC: Sequence[Callable[..., Any]] = [
    *dict.fromkeys(
        found
        for module in (api, winnow)
        for name in module.__all__
        if inspect.isfunction(found := getattr(module, name))
    ),
    Plan.what_if,
    Plan.execute,
    Result.report,
]
CLASSES: Sequence[type] = [winnow.Avro, winnow.Json, Plan, Result]
each_function = pytest.mark.parametrize("function", PUBLIC, ids=lambda f: f.__qualname__)
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example):\n", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*\n?(?:     .*\n?)*)", re.MULTILINE)


def sections(described: object) -> Mapping[str, str]:
    """The parts of a docstring by their titles. That of the first part is empty."""
    parts = _SECTION.split(inspect.getdoc(described) or "")
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


def entries(section: str) -> Mapping[str, str]:
    """The name and the meaning of each argument or exception."""
    return {name: " ".join(words.split()) for name, words in _ENTRY.findall(section)}


@each_function
def test_public_function_is_checked_and_describes_each_argument(
    function: Callable[..., Any],
) -> None:
    assert hasattr(function, "__wrapped__"), "decorate it with `checked`"
    written = sections(function)
    assert written["Raises"]
    assert written["Example"]
    described = entries(written["Args"])
    declared = [p for p in _parameters(inspect.unwrap(function)).values() if p.name != "self"]
    assert [*described] == [p.name for p in declared]
    for p in declared:
        assert p.kind is not p.VAR_KEYWORD or function is Plan.what_if, "name each option"
        needed = p.default is p.empty
        assert ("default" in described[p.name]) is not needed, f"say the default of {p.name}"


def test_every_public_name_is_described() -> None:
    described = {*CLASSES, *PUBLIC}
    public = (getattr(module, name) for module in (api, winnow) for name in module.__all__)
    assert [found for found in public if found not in described] == []


@pytest.mark.parametrize("kind", CLASSES)
def test_public_class_describes_each_argument_and_attribute(kind: Any) -> None:
    written = sections(kind)
    assert written["Example"]
    arguments = entries(written.get("Args", ""))
    own = [f for f in fields(kind) if f.name in kind.__annotations__]
    assert [*(arguments or entries(written["Attributes"]))] == [f.name for f in own]
    assert not arguments or written["Raises"]
    assert all("default" in meaning for meaning in arguments.values())
    for name, found in vars(kind).items():
        assert name.startswith("_") or name in kind.__annotations__ or inspect.getdoc(found), name


@each_function
def test_wrong_type_of_any_argument_is_refused_by_its_name(function: Callable[..., Any]) -> None:
    declared = _parameters(inspect.unwrap(function))
    others = [one for one in declared.values() if one.kind is one.VAR_KEYWORD]
    named = [one for one in declared.values() if one not in others]
    required = {one.name for one in named if one.default is one.empty}
    some = {name: SAMPLES.get(name, "x") for name in required - {"self"}}
    some |= {"log_dirs": ["x"]} if "log_dirs" in some else {}
    own = {} if "self" not in declared else {"self": None}
    wrong = {one.name for one in named if not fits(_Nothing(), one.annotation)}
    assert wrong
    for name in sorted(wrong):
        with pytest.raises(UsageError, match=f"^{name} can't be used: expected "):
            function(**own, **some | {name: _Nothing()})
    if not others:
        with pytest.raises(UsageError, match=r"^there is no argument nothing: expected "):
            function(**own, **some, nothing=1)
    for name in some:
        with pytest.raises(UsageError, match=f"^the argument {name} is missing: expected "):
            function(**own, **{one: found for one, found in some.items() if one != name})


FITS: Sequence[tuple[object, Any, bool]] = [
    (1, int, True),
    (True, int, False),
    (1, float, True),
    (True, bool, True),
    ("x", Sequence[str], False),
    (("x", "y"), Sequence[str], True),
    (["x", 1], Sequence[str], False),
    (None, str | None, True),
    ({"a": {"b": 1}}, Mapping[str, Mapping[str, int]], True),
    ({"a": {"b": "c"}}, Mapping[str, Mapping[str, int]], False),
    (len, Callable[[str], int], True),
    (5, Callable[[str], int], False),
    ("any word", Literal["a"], True),
    (_Nothing(), Any, True),
]


@pytest.mark.parametrize(("found", "kind", "expected"), FITS)
def test_value_fits_a_type(found: object, kind: object, *, expected: bool) -> None:
    assert fits(found, kind) is expected
    assert words(kind)


def test_entry_of_a_mapping_is_named() -> None:
    @checked
    def call(sets: Mapping[str, Mapping[str, int]]) -> int:
        return len(sets)

    assert call({"a": {"b": 1}}) == 1
    with pytest.raises(UsageError, match=r"sets\['a'\]\['b'\] can't be used: expected a whole"):
        call({"a": {"b": "c"}})  # type: ignore[dict-item]
