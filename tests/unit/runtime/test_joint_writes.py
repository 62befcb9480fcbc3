from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from winnow.runtime.joint_writes import JointWrites

_LONG_S = 30


class _File:
    """What is written, and by which writes. The first write waits until the others are queued."""

    def __init__(self, *, bad: int | None = None) -> None:
        self.writes: list[tuple[list[int], bool]] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.content: set[int] = set()
        self._bad = bad

    def write(self, wishes: Sequence[int], *, again: bool) -> Sequence[bool]:
        self.writes.append(([*wishes], again))
        self.begun.set()
        assert self.go_on.wait(_LONG_S)
        if self._bad in wishes:
            raise OSError(f"{self._bad} can't be written")
        new = [wish not in self.content for wish in wishes]
        self.content |= {*wishes}
        return new


def _five_while_the_first_is_written(file: _File) -> dict[int, Future[bool]]:
    joint = JointWrites(file.write)
    with ThreadPoolExecutor(6) as pool:
        futures = {0: pool.submit(joint.add, 0)}
        assert file.begun.wait(_LONG_S)
        futures |= {n: pool.submit(joint.add, n) for n in range(1, 6)}
        while len(joint._queue) < 5:
            threading.Event().wait(0.001)
        file.go_on.set()
    return futures


def test_what_is_wanted_during_a_write_is_written_by_the_next() -> None:
    file = _File()
    futures = _five_while_the_first_is_written(file)
    assert [(sorted(wishes), again) for wishes, again in file.writes] == [
        ([0], False),
        ([1, 2, 3, 4, 5], False),
    ]
    assert all(future.result() for future in futures.values())


def test_failure_of_one_is_not_that_of_the_others() -> None:
    file = _File(bad=3)
    futures = _five_while_the_first_is_written(file)
    with pytest.raises(OSError, match="3 can't be written"):
        futures.pop(3).result()
    assert all(future.result() for future in futures.values())
    assert file.content == {0, 1, 2, 4, 5}
    # A joint write that failed may have ended halfway, so each is written even if nothing changes.
    assert sorted(file.writes[2:]) == [([n], True) for n in range(1, 6)]


def test_each_learns_whether_its_own_wish_changed_anything() -> None:
    file = _File()
    file.content = {2, 4}
    futures = _five_while_the_first_is_written(file)
    assert {n for n, future in futures.items() if not future.result()} == {2, 4}


def test_one_thread_after_the_other_writes_alone() -> None:
    file = _File()
    file.go_on.set()
    joint = JointWrites(file.write)
    assert [*map(partial(joint.add), (1, 1, 2))] == [True, False, True]
    assert file.writes == [([1], False), ([1], False), ([2], False)]
