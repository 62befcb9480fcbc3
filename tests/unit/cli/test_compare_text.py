"""What the first line of a comparison counts."""

from __future__ import annotations

import pytest

from tests.unit.cli.results import printed
from winnow.cli.text.compare import page
from winnow.verbs.compare.values import CompareResult, Comparison

SAME = Comparison(topic="t", partition=0, replicas=(), start=0, end=9, every_record_from=0)
EMPTY = Comparison(topic="t", partition=1, replicas=(), why_not="no committed records")


@pytest.mark.parametrize(
    ("comparisons", "title"),
    [
        ((), "No partition is in two of the log directories."),
        ((SAME,), "The replicas of 1 partition agree."),
        ((SAME, EMPTY), "The replicas of 1 partition agree."),
        ((EMPTY,), "Nothing of 1 partition could be compared."),
    ],
)
def test_first_line_counts_only_what_was_compared(
    comparisons: tuple[Comparison, ...], title: str
) -> None:
    shown = printed(page(CompareResult(comparisons=comparisons), 100))
    assert shown.splitlines()[0] == title
