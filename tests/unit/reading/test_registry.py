"""A schema registry can't make a read go on for ever, nor end in a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.schema_registry import Registry, serving
from winnow.errors import WinnowError
from winnow.reading import registry as limits
from winnow.reading.registry import Registry as Reader


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as known:
        yield known


def reference(subject: str, version: Any = 1) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "version": version}


def record(name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": []}


def knows(registry: Registry, subject: str, *to: str) -> None:
    answer = {"schema": json.dumps(record(subject)), "references": [reference(one) for one in to]}
    registry.answers[f"/subjects/{subject}/versions/1"] = answer


def test_references_that_double_are_fetched_once_each(registry: Registry) -> None:
    """Each of 20 levels refers twice to the next: 2^20 ways lead to the last."""
    for level in range(20):
        knows(registry, f"a{level}", f"a{level + 1}", f"b{level + 1}")
        knows(registry, f"b{level}", f"a{level + 1}", f"b{level + 1}")
    knows(registry, "a20")
    knows(registry, "b20")
    registry.knows(1, "string", references=[reference("a0"), reference("b0")])
    registry.knows(2, "long", references=[reference("b0")])
    reader = Reader(registry.url)
    found = reader.schema(1)
    assert found[-1] == "string"
    assert sorted(one["name"] for one in found[:-1]) == sorted(
        f"{side}{level}" for side in "ab" for level in range(21)
    )
    assert [one["name"] for one in found[:2]] == ["a20", "b20"], "what is referred to comes first"
    assert len(reader.schema(2)) == 42
    assert len(registry.asked) == 44
    assert len(set(registry.asked)) == 44


def test_chain_of_references_without_end_is_refused(registry: Registry) -> None:
    for level in range(200):
        knows(registry, f"s{level}", f"s{level + 1}")
    registry.knows(1, "string", references=[reference("s0")])
    with pytest.raises(WinnowError, match=r"refers to too many others: expected .* 64 in a row"):
        Reader(registry.url).schema(1)
    assert len(registry.asked) < 70


def test_schema_with_very_many_references_is_refused(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MOST_REFERENCES", 10)
    wide = [f"s{number}" for number in range(8)]
    for name in wide:
        knows(registry, name, f"{name}-a", f"{name}-b")
        knows(registry, f"{name}-a")
        knows(registry, f"{name}-b")
    registry.knows(1, "string", references=[reference(name) for name in wide])
    with pytest.raises(WinnowError, match="at most 10, and"):
        Reader(registry.url).schema(1)
    registry.knows(2, "string", references=[reference(f"t{number}") for number in range(11)])
    with pytest.raises(WinnowError, match="references that are no list of at most 10"):
        Reader(registry.url).schema(2)


@pytest.mark.parametrize(
    ("limit", "most"), [("_MOST_REQUESTS", 5), ("_MOST_BYTES", 100), ("_MOST_MS", 9)]
)
def test_all_answers_together_have_a_limit(
    limit: str, most: int, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, limit, most)
    for number in range(20):
        registry.knows(number, "string")
    reader = Reader(registry.url)
    with pytest.raises(WinnowError, match=rf"too (many|slowly).* at most {most} .* in all"):
        _ = [reader.schema(number) for number in range(20)]


DEEP = 100_000


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b'{"schema":' + b"[" * DEEP + b"]" * DEEP + b"}", "no JSON object"),
        ({"schema": "[" * DEEP + "]" * DEEP}, "objects or lists inside each other"),
        ({"schema": "[" * 300 + "]" * 300}, "objects or lists inside each other"),
        ({"schema": '"' + "x" * 2**20 + '"'}, "at most 1048576 characters"),
        ({"schema": 5}, "no text of a schema"),
        ({"schema": '"int"', "references": 5}, "references that are no list"),
        ({"schema": '"int"', "references": {"a": 1}}, "references that are no list"),
        ({"schema": '"int"', "references": [5]}, "without a subject and a version"),
        ({"schema": '"int"', "references": [{}]}, "without a subject and a version"),
        ({"schema": '"int"', "references": [reference("s", "x")]}, "without a subject and a ver"),
        ({"schema": '"int"', "references": [reference("s", None)]}, "without a subject and a ver"),
        ({"schema": '"int"', "references": [reference("s", True)]}, "without a subject and a ver"),
        ({"schema": '"int"', "references": [reference(5)]}, "without a subject and a version"),  # type: ignore[arg-type]
        ({"schema": '"int"', "references": [reference("\ud800")]}, "surrogates not allowed"),
        (b" " * (4 * 2**20 + 2), "4194305 bytes that are no JSON object"),
    ],
)
def test_malformed_answer_is_a_sentence(answer: Any, words: str, registry: Registry) -> None:
    registry.answers["/schemas/ids/7"] = answer
    with pytest.raises(WinnowError, match="can't be understood") as raised:
        Reader(registry.url).schema(7)
    assert words in str(raised.value)
    assert len(str(raised.value)) < 500


def test_same_schema_of_two_subjects_counts_once(registry: Registry) -> None:
    for subject in ("one", "two"):
        registry.answers[f"/subjects/{subject}/versions/1"] = {"schema": json.dumps(record("R"))}
    registry.knows(1, "R", references=[reference("one"), reference("two")])
    assert Reader(registry.url).schema(1) == [record("R"), "R"]
