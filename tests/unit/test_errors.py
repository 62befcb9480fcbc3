from __future__ import annotations

import pickle
import traceback

import pytest

from winnow.errors import (
    CorruptLogError,
    LogDirInUseError,
    NoSpaceError,
    UsageError,
    VerificationError,
    WinnowError,
    optional,
)

KINDS = (
    WinnowError,
    UsageError,
    CorruptLogError,
    VerificationError,
    LogDirInUseError,
    NoSpaceError,
)


@pytest.mark.parametrize("kind", KINDS)
def test_error_survives_pickling(kind: type[WinnowError]) -> None:
    error = kind(
        "a problem",
        expected="this",
        found="that",
        where="x.log at byte 3",
        hint="Do this.",
        position=3,
    )
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(back) is kind
    assert (back.problem, back.expected, back.found, back.where, back.hint, back.position) == (
        *("a problem", "this", "that"),
        *("x.log at byte 3", "Do this.", 3),
    )
    assert str(back) == str(error)


def test_message_has_expected_found_where_and_hint() -> None:
    error = CorruptLogError(
        "a problem", expected="this", found="that", where="x.log", hint="Do this."
    )
    assert str(error) == "a problem: expected this, found that (x.log). Do this."
    assert str(CorruptLogError("a problem")) == "a problem"
    assert str(CorruptLogError("a problem", found="that")) == "a problem: found that"


def test_message_that_nobody_catches_controls_no_terminal() -> None:
    evil = "\x1b]0;t\x07\u202e\ud800"
    error = WinnowError(evil, expected=evil, found=f"{evil}\n2", where=evil, hint=evil)
    for shown in (str(error), *traceback.format_exception(error)):
        assert all(c.isprintable() or c == "\n" for c in shown)
    assert str(error).count(r"\x1b]0;t\x07\u202e\ud800") == 5
    assert error.where == evil, "for programs"


def test_each_kind_has_its_documented_exit_code() -> None:
    assert [kind.exit_code for kind in KINDS] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("where", "start", "expected"),
    [
        (None, 0, "/t-0/0.log"),
        (None, 9, "/t-0/0.log"),
        ("/t-0/0.log", 9, "/t-0/0.log"),
        ("batch at byte 5", 0, "/t-0/0.log, batch at byte 5"),
        ("batch at byte 5", 9, "/t-0/0.log, batch at byte 5, counted from byte 9"),
        ("/t-0/0.log at byte 5", 0, "/t-0/0.log at byte 5"),
        ("/t-0/0.log at byte 5", 9, "/t-0/0.log at byte 5, counted from byte 9"),
    ],
)
def test_error_inside_a_file_names_it_once_and_where_its_bytes_count_from(
    where: str | None, start: int, expected: str
) -> None:
    error = CorruptLogError("batch can't be read", where=where)
    assert error.inside("/t-0/0.log", start).where == expected


@pytest.mark.parametrize("part", ["expected", "found", "where", "hint"])
def test_a_part_of_an_error_has_an_end(part: str) -> None:
    error = WinnowError("x", **{part: "y" * 10**7})
    assert len(str(error)) < 11_000
    assert "yyy... (10000000 characters)" in str(error)


@pytest.mark.parametrize("length", [9_000, 9_985, 9_990, 9_995])
def test_a_cut_leaves_no_part_of_a_password(length: int) -> None:
    text = "x" * length + " https://me:secret@host/" + "z" * 20_000
    assert "secr" not in str(WinnowError("x", found=text))


@pytest.mark.parametrize(
    ("error", "logged"),
    [(CorruptLogError("damage"), []), (OSError(5, "no"), []), (KeyError("a bug"), ["ERROR"])],
)
def test_optional_work_is_left_out_and_a_bug_in_it_is_not_silent(
    error: Exception, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with optional("some work"):
        raise error
    assert [record.levelname for record in caplog.records] == logged
    assert all(record.exc_info for record in caplog.records)
