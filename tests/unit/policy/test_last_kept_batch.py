"""S5.4: Kafka 4.3 keeps the batch that ends the cleaned range. Kafka 4.4 keeps the one that ends at
the high watermark.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.policy.states import NOW, config, partition, segment
from winnow.policy.cleanable import cleanable_range


@given(
    bases=st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True).map(sorted),
    beyond=st.integers(0, 5),
    high_watermark=st.integers(0, 50),
    stable=st.integers(0, 50),
    checkpoint=st.none() | st.integers(0, 50),
    start=st.integers(0, 50),
)
def test_cleaned_range_ends_at_or_below_the_high_watermark(
    bases: list[int],
    beyond: int,
    high_watermark: int,
    stable: int,
    checkpoint: int | None,
    start: int,
) -> None:
    """So a cleaned batch that ends at the high watermark also ends the range: one rule
    keeps both.
    """
    end = bases[-1] + beyond
    start = min(max(start, bases[0]), end)
    watermark = min(max(high_watermark, start), end)
    state = partition(
        [segment(base) for base in bases],
        end=end,
        start=start,
        checkpoint=checkpoint,
        high_watermark=watermark,
    )
    found = cleanable_range(state, config(), NOW, last_stable_offset=min(stable, watermark))
    assert not found.cleanable_bytes or found.first_uncleanable_offset <= watermark
