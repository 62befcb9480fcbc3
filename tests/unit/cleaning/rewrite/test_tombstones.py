import numpy as np
import pytest

from winnow.cleaning.rewrite.cleaned import by_age
from winnow.wire.batch import BATCH

NOW = 1_795_300_000_000
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("timestamp", "age"),
    [
        (NOW + DAY, 0),
        (NOW - HOUR + 1, 0),
        (NOW - HOUR, 1),
        (NOW - DAY, 2),
        (NOW - 7 * DAY, 3),
        (NOW - 30 * DAY, 4),
        (NOW - 365 * DAY, 5),
        (-1, 5),
        (-(2**63), 5),
        (2**63 - 1, 0),
    ],
)
def test_tombstones_are_counted_by_the_age_of_their_batch(timestamp: int, age: int) -> None:
    batches = np.zeros(2, BATCH)
    batches["max_timestamp"] = timestamp
    counts = by_age(batches, np.array([3, 4], np.int32), NOW)
    assert counts.tolist() == [7 if at == age else 0 for at in range(6)]


def test_no_batches_count_no_tombstones() -> None:
    assert by_age(np.zeros(0, BATCH), np.zeros(0, np.int32), NOW).tolist() == [0] * 6
