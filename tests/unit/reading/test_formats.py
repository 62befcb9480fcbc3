"""Formats are checked when they are given, before Spark does anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from winnow.errors import UsageError
from winnow.reading.formats import Avro, Json, parse_format


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Avro, "Avro needs a schema"),
        (lambda: Avro(registry="registry:8081"), "not the URL of a schema registry"),
        (lambda: Avro(registry="ftp://registry"), "not the URL of a schema registry"),
        (lambda: Avro(registry="http://r", schemas={1: "{}"}), "expected one of them"),
        (lambda: Avro(schemas={}), "a mapping such as"),
        (lambda: Avro(schemas={-1: "{}"}), "not the id of a schema"),
        (lambda: Avro(schemas={True: "{}"}), "not the id of a schema"),
        (lambda: Avro(schema=" "), "the path of a file"),
        (lambda: Json(5), "the schema of Json can't be used"),  # type: ignore[arg-type]
        (lambda: Json(""), "the schema of Json can't be used"),
    ],
)
def test_wrong_format_is_refused_with_what_was_expected(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        make()


@pytest.mark.parametrize("wrong", ["avro", "text", None, 3, "BYTES"])
def test_unknown_format_names_those_that_exist(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"the format of value is not known.*'bytes', 'string'"):
        parse_format(wrong, option="value")


def test_password_of_a_registry_is_in_no_message() -> None:
    with pytest.raises(UsageError) as told:
        Avro(registry="https://user:secret@")
    assert "secret" not in str(told.value)
