from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.runtime.packing import left_over, packed, task_count

WEIGHTS = st.lists(st.integers(0, 10**12), max_size=40)


def pack(weights: list[int], *, tasks: int) -> list[int]:
    """The task of each item."""
    lists = packed(range(len(weights)), weights, tasks=tasks)
    assert len(lists) == tasks
    assert all(some == sorted(some) for some in lists)
    task_of = {item: task for task, some in enumerate(lists) for item in some}
    return [task_of[item] for item in range(len(weights))]


@given(WEIGHTS, st.integers(1, 9))
def test_loads_differ_by_at_most_the_heaviest_item(weights: list[int], tasks: int) -> None:
    placed = pack(weights, tasks=tasks)
    assert len(placed) == len(weights)
    loads = [0] * tasks
    for weight, task in zip(weights, placed, strict=True):
        assert 0 <= task < tasks
        loads[task] += weight
    assert max(loads) - min(loads) <= max(weights, default=0)


@given(WEIGHTS, st.integers(1, 9))
def test_packing_is_deterministic(weights: list[int], tasks: int) -> None:
    assert pack(weights, tasks=tasks) == pack(list(weights), tasks=tasks)


@given(st.integers(1, 10**13), st.integers(1, 10**10), st.integers(1, 500), st.integers(1, 64))
def test_task_count_never_exceeds_the_items(
    total: int, per_task: int, items: int, parallelism: int
) -> None:
    assert 1 <= task_count(total, per_task=per_task, items=items, parallelism=parallelism) <= items


def test_many_small_items_use_every_core() -> None:
    assert task_count(10, per_task=1000, items=100, parallelism=4) == 12


def test_each_core_has_one_task_unless_several_are_worthwhile() -> None:
    counts = [
        task_count(total, per_task=1000, items=100, parallelism=4, worth=50)
        for total in (0, 399, 400, 600, 9999)
    ]
    assert counts == [4, 4, 8, 12, 12]
    assert task_count(10_000, per_task=100, items=1000, parallelism=4, worth=5000) == 100, (
        "none above what it may have"
    )


def test_large_work_is_split_to_limit_each_task() -> None:
    assert task_count(10_400, per_task=100, items=1000, parallelism=4) == 104


def test_task_count_is_a_multiple_of_the_cores() -> None:
    assert task_count(10_401, per_task=100, items=1000, parallelism=4) == 108


def test_no_items_give_one_task() -> None:
    assert task_count(0, per_task=100, items=0, parallelism=4) == 1


def test_small_items_are_spread_despite_a_heavy_one() -> None:
    alone = pack([100] + [0] * 40, tasks=4)
    assert alone.count(alone[0]) == 1
    placed = pack([200] + [100] * 40, tasks=4)
    assert sorted(placed.count(task) for task in range(4)) == [10, 10, 10, 11]


def test_heavy_item_has_a_task_of_its_own() -> None:
    placed = pack([1] * 50 + [100] + [1] * 50, tasks=2)
    assert [task == placed[50] for task in placed].count(True) == 1


@pytest.mark.parametrize(
    ("weights", "cores", "late"),
    [
        ([10], 1, []),
        ([10], 2, [0]),
        ([9, 1], 2, [0]),
        ([5, 5], 2, []),
        ([5, 5, 5], 2, [2]),
        ([5, 5, 4, 4], 2, []),
        ([5] * 5, 4, [4]),
        ([7, 7, 1], 3, [0, 1]),
        ([], 2, []),
    ],
)
def test_left_over_finds_tasks_that_idle_cores_can_help(
    weights: list[int], cores: int, late: list[int]
) -> None:
    assert left_over(weights, cores=cores) == late
