"""How much memory one batch may take."""

from __future__ import annotations

import pytest

from winnow.batch_memory import LEAST_BYTES, VARIABLE, budget_of
from winnow.errors import UsageError

GIB = 2**30


@pytest.mark.parametrize(
    ("memory", "cores", "process", "budget"),
    [
        (64 * GIB, 4, None, 3 * GIB),
        (16 * GIB, 8, None, 384 * 2**20),
        (2 * GIB, 8, None, LEAST_BYTES),
        (64 * GIB, 4, GIB, GIB // 4),
        (2 * GIB, 8, 128 * 2**20, 32 * 2**20),
    ],
)
def test_batch_may_take_a_quarter_of_a_cores_share(
    memory: int, cores: int, process: int | None, budget: int
) -> None:
    assert budget_of({}, memory=memory, cores=cores, process=process) == budget


def test_environment_variable_sets_the_budget() -> None:
    assert budget_of({VARIABLE: "2147483639"}, memory=GIB, cores=8, process=GIB) == 2**31 - 9


@pytest.mark.parametrize("given", ["", "0", "-1", "2G", "1e9"])
def test_malformed_byte_count_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="not a number of bytes"):
        budget_of({VARIABLE: given}, memory=GIB, cores=8, process=None)
