"""Starts, ends and points in time become options of `kafka-log`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from winnow.errors import UsageError
from winnow.reading.bounds import parse_point, range_options, state_options


def test_offsets_are_offsets_and_times_are_those_of_records() -> None:
    assert range_options(5, 9) == {"startingOffsets": "5", "endingOffsets": "9"}
    noon = datetime(2026, 9, 21, 14, tzinfo=timezone(timedelta(hours=2)))
    assert range_options(noon, "2026-09-21T13:00:00Z") == {
        "timestampFrom": "1789992000000",
        "timestampBefore": "1789995600000",
    }
    assert range_options({"t": {0: 5}}, None) == {"startingOffsets": '{"t": {"0": 5}}'}
    assert range_options(None, None) == {}


def test_time_without_zone_is_utc() -> None:
    aware = datetime(2026, 9, 21, 14, tzinfo=UTC)
    assert range_options("2026-09-21T14:00:00", None) == range_options(aware, None)


@pytest.mark.parametrize(
    ("point", "options"),
    [
        (7, {"endingOffsets": "8"}),
        ({"t": {1: 7}}, {"endingOffsets": '{"t": {"1": 8}}'}),
        ("1970-01-01T00:00:00.005Z", {"timestampBefore": "6"}),
        ("1970-01-01T00:00:00.005900Z", {"timestampBefore": "6"}),
    ],
)
def test_point_in_time_counts_itself(point: Any, options: dict[str, str]) -> None:
    assert state_options(parse_point(point, option="as_of", up=False)) == options


@pytest.mark.parametrize(
    "wrong",
    [-1, True, 1.5, "yesterday", "", "1969-12-31T00:00:00Z", {}, {"t": {}}, {"t": 3},
     {"t": {"0": 3}}, {"t": {0: -1}}, {3: {0: 1}}, b"1", 2**63],
)  # fmt: skip
def test_wrong_bound_is_named_with_what_was_expected(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"start can't be understood.*an offset, a time such as"):
        range_options(wrong, None)
