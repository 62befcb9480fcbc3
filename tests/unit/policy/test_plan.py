"""The state that a plan leaves."""

from __future__ import annotations

from tests.unit.policy.states import partition, segment
from winnow.policy.plan import after_round


def test_segments_that_an_earlier_run_replaced_remain_after_the_round() -> None:
    placed, *sources, active = (segment(base, 100) for base in (0, 20, 30, 40))
    output = segment(20, 50)
    after = after_round(partition((placed, *sources, active), end=50), [(sources, output)], 40)
    assert after.segments == (placed, output, active)
    assert after.cleaner_checkpoint == 40
