"""Values sent between the driver and its tasks are unchanged."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from winnow.policy.transaction_runs import NO_RUNS
from winnow.state import Segment, TopicPartition
from winnow.survey.walk import SegmentWalk, TransactionsWanted

SEGMENT = Segment(7, 1, 2, 3, None, 5, -1, -2, log_stamp=(8, 9))


def values(of: object) -> dict[str, object]:
    """Return all fields, including those that comparisons ignore."""
    return {field.name: getattr(of, field.name) for field in fields(of)}  # type: ignore[arg-type]


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - ours


@pytest.mark.parametrize("there_and_back", [pickled, copy.copy, copy.deepcopy])
def test_every_field_is_pickled(there_and_back: Callable[[Segment], Segment]) -> None:
    back = there_and_back(SEGMENT)
    assert values(back) == values(SEGMENT)
    with pytest.raises(FrozenInstanceError):
        back.base_offset = 8  # type: ignore[misc]


def test_walk_is_unchanged_and_empty_values_are_shared() -> None:
    walks = [SegmentWalk(base, base, records=base, first_live=base) for base in (7, 8)]
    back: list[SegmentWalk] = pickled(walks)
    for walk, was in zip(back, walks, strict=True):
        told, expected = values(walk), values(was)
        for name in ("last_batches", "aborted"):
            array, like = told.pop(name), expected.pop(name)
            assert (array.dtype, array.tolist()) == (like.dtype, like.tolist())  # type: ignore[attr-defined]
        told.pop("runs"), expected.pop("runs")
        assert told == expected
    assert walks[0].runs is NO_RUNS
    assert back[0].runs is back[1].runs


def test_keyword_only_fields_are_pickled() -> None:
    wanted = TransactionsWanted(
        high_watermark=9, log_start_offset=2, end_offset=None, txn_index=True
    )
    assert pickled(wanted) == wanted
    assert pickled(TopicPartition("a", 3)) == TopicPartition("a", 3)
