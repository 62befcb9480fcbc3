from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial

import pytest

from winnow.runtime import side_by_side as module
from winnow.runtime.side_by_side import in_background, side_by_side

_LONG_S = 30


def test_results_have_the_order_of_the_pieces() -> None:
    second_done = threading.Event()

    def first() -> str:
        assert second_done.wait(_LONG_S)
        return "first"

    def second() -> str:
        second_done.set()
        return "second"

    ended: list[int] = []
    done = side_by_side([first, second], at_once=2, done=lambda: ended.append(1))
    assert done == ["first", "second"]
    assert ended == [1, 1]


@pytest.mark.parametrize("at_once", [2, 3])
def test_so_many_pieces_are_under_way_and_no_more(at_once: int) -> None:
    together = threading.Barrier(at_once, timeout=_LONG_S)
    lock = threading.Lock()
    under_way = most = 0

    def piece() -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        together.wait()
        with lock:
            under_way -= 1

    side_by_side([piece] * (4 * at_once), at_once=at_once)
    assert most == at_once


@pytest.mark.parametrize(("pieces", "at_once"), [(3, 1), (1, 16), (0, 16)])
def test_one_at_a_time_starts_no_thread(pieces: int, at_once: int) -> None:
    here = threading.get_ident()
    assert side_by_side([threading.get_ident] * pieces, at_once=at_once) == [here] * pieces


def test_after_an_error_nothing_begins_and_all_that_began_ends() -> None:
    """The thread of the piece that fails takes the next piece before any other thread can."""
    another_began = threading.Event()
    began: list[str] = []
    ended: list[str] = []

    def slow() -> None:
        began.append("slow")
        another_began.wait(0.5)
        ended.append("slow")

    def fails() -> None:
        began.append("fails")
        time.sleep(0.1)  # until all pieces wait for a thread
        raise ValueError

    def another() -> None:
        began.append("another")
        another_began.set()

    with pytest.raises(ValueError, match=r"^$"):
        side_by_side([slow, fails, *[another] * 500], at_once=2)
    assert sorted(began) == ["fails", "slow"]
    assert ended == ["slow"]


def test_interrupts_wait_for_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first interrupt comes while results are collected, two more during the wait."""
    interrupted = threading.Event()
    interrupts = 2
    ended: list[int] = []

    def slow() -> None:
        assert interrupted.wait(_LONG_S)
        ended.append(1)

    def interrupt() -> None:
        raise KeyboardInterrupt

    def interrupted_wait(futures: Sequence[Future[None]]) -> object:
        nonlocal interrupts
        if interrupts:
            interrupts -= 1
            raise KeyboardInterrupt
        interrupted.set()
        return wait(futures)

    monkeypatch.setattr(module, "wait", interrupted_wait)
    with pytest.raises(KeyboardInterrupt):
        side_by_side([slow, lambda: None, *[slow] * 100], at_once=2, done=interrupt)
    assert 1 <= len(ended) <= 2
    assert interrupts == 0


def test_piece_in_the_background_ends_after_the_next_one_was_made() -> None:
    second_made = threading.Event()

    def first() -> str:
        assert second_made.wait(_LONG_S)
        return "first"

    def pieces() -> Iterator[tuple[int, Callable[[], str]]]:
        yield 1, first
        second_made.set()
        yield 1, lambda: "second"

    assert list(in_background(pieces(), at_once=1, room=1)) == ["first", "second"]


@pytest.mark.parametrize(
    ("at_once", "room", "most_expected"), [(1, 100, 1), (2, 100, 2), (8, 7, 3), (8, 1, 1)]
)
def test_so_many_pieces_are_in_the_background_and_no_more(
    at_once: int, room: int, most_expected: int
) -> None:
    made = taken = most = 0

    def pieces() -> Iterator[tuple[int, Callable[[], int]]]:
        nonlocal made, most
        for number in range(10):
            most = max(most, made - taken)
            made += 1
            yield 2, partial(abs, number)

    results = []
    for result in in_background(pieces(), at_once=at_once, room=room):
        results.append(result)
        taken += 1
    assert results == list(range(10))
    assert most == most_expected  # beside the one that is made


def test_none_in_the_background_starts_no_thread() -> None:
    here = threading.get_ident()
    pieces = [(1, threading.get_ident)] * 3
    assert list(in_background(pieces, at_once=0, room=1)) == [here] * 3


@pytest.mark.parametrize("early", [False, True])
def test_nothing_is_in_the_background_after_an_error_or_an_early_end(*, early: bool) -> None:
    failed, ended, made = threading.Event(), threading.Event(), []

    def failing() -> None:
        failed.set()
        if not early:
            raise RuntimeError("one fails")

    def slow() -> None:
        assert failed.wait(_LONG_S)
        ended.set()

    def pieces() -> Iterator[tuple[int, Callable[[], None]]]:
        for piece in (failing, slow, slow, slow):
            made.append(piece)
            yield 1, piece

    results = in_background(pieces(), at_once=1, room=1)
    if early:
        next(results)
        results.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises(RuntimeError, match="one fails"):
            next(results)
    assert ended.is_set()
    assert made == [failing, slow]
