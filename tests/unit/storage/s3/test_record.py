"""Commit records of S3 as anybody may have left them. Each is read as written or raises
CorruptLogError, quickly.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.mutate import Edit, Kind, apply
from winnow.errors import CorruptLogError
from winnow.storage.s3.record import ChangeRecord, Content, Copied, decode, encode

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=4
)
PATHS = st.lists(
    NAMES.filter(lambda name: name not in {".", "..", ".winnow-commit"}), min_size=1, max_size=3
)
TIMES = st.integers(0, 2**63 - 1)
COPIES = st.builds(Copied, PATHS.map("/".join), TIMES, st.text(max_size=4), TIMES)
CONTENTS = st.builds(Content, st.binary(max_size=8), TIMES)
NUMBERS = st.integers(0, 2**24 - 1)
EDITS = st.lists(
    st.builds(Edit, st.integers(0, len(Kind) - 1), NUMBERS, NUMBERS), min_size=1, max_size=4
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@st.composite
def records(draw: st.DrawFn) -> ChangeRecord:
    names = PATHS.map("/".join)
    copies = draw(st.dictionaries(names, COPIES, max_size=3))
    contents = draw(st.dictionaries(names.filter(lambda n: n not in copies), CONTENTS, max_size=3))
    others = names.filter(lambda name: name not in {*copies, *contents})
    deletes = draw(st.lists(others, unique=True, max_size=3))
    state = draw(st.sampled_from(["prepared", "decided"]))
    return ChangeRecord(
        directory="",
        id=draw(st.text(max_size=4)),
        state="decided" if state == "decided" else "prepared",
        copies=copies,
        contents=contents,
        deletes=tuple(deletes),
    )


def told(**fields: object) -> bytes:
    usual = {
        "version": 1,
        "id": "x",
        "state": "decided",
        "copies": [],
        "contents": [],
        "deletes": [],
    }
    return json.dumps(usual | fields).encode()


def accepts(data: bytes) -> bool:
    """Return whether the record is accepted. If so, check that it encodes to the same, and that its
    order holds every copy.
    """
    try:
        record = decode(data, "", "here")
        steps = record.in_order()
    except CorruptLogError:
        return False
    assert decode(encode(record), "", "here") == record
    assert sorted(name for step in steps for name in step) == sorted(record.copies)
    return True


@settings(max_examples=60)
@given(record=records())
def test_any_change_record_round_trips(record: ChangeRecord) -> None:
    assert decode(encode(record), "", "here") == record


@settings(max_examples=60)
@given(record=records(), other=records(), edits=EDITS)
def test_mutations_are_accepted_or_refused(
    record: ChangeRecord, other: ChangeRecord, edits: list[Edit]
) -> None:
    accepts(apply(encode(record), edits, others=[encode(other)]))


@settings(max_examples=60)
@given(
    record=records(),
    field=st.sampled_from(["version", "id", "state", "copies", "contents", "deletes"]),
    value=ANY,
)
def test_any_field_value_is_accepted_or_refused(
    record: ChangeRecord, field: str, value: object
) -> None:
    accepts(json.dumps({**json.loads(encode(record)), field: value}).encode())


@given(
    copies=st.lists(st.lists(ANY, min_size=5, max_size=5), max_size=2),
    contents=st.lists(st.lists(ANY, min_size=3, max_size=3), max_size=2),
)
def test_any_cell_value_is_accepted_or_refused(
    copies: list[object], contents: list[object]
) -> None:
    accepts(told(copies=copies, contents=contents))


@pytest.mark.parametrize(
    "data",
    [
        told(state=[]),
        told(deletes=["\ud800"]),
        told(deletes=["a", "a"]),
        told(contents=[["a", "", 1], ["a", "YQ==", 1]]),
        told(copies=[["a", "b", 0, "", 0]], deletes=["a"]),
        b"[" * 100_000,
        b'{"version": ' + b"1" * 5000,
    ],
)
def test_impossible_record_is_refused(data: bytes) -> None:
    assert accepts(told())
    assert not accepts(data)


@pytest.mark.timeout(20)
def test_long_chain_of_copies_is_ordered_in_linear_time() -> None:
    copies = {str(n): Copied(str(n + 1), 0, "", 0) for n in range(50_000)}
    record = ChangeRecord("", "x", "decided", copies, {}, ())
    assert record.in_order() == [[name] for name in copies]
