from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from winnow.runtime.joint_writes import JointWrites
from winnow.storage.turns import holding, in_turn, sync, waiting

_LONG_S = 30
_SOON_S = 0.05


def _together(*pieces: Callable[[], object]) -> None:
    with ThreadPoolExecutor(len(pieces)) as pool:
        for done in [pool.submit(in_turn, piece) for piece in pieces]:
            done.result(timeout=_LONG_S)


def _run_alone(running: threading.Lock) -> None:
    """Fail if another thread is in here, too."""
    assert running.acquire(blocking=False)
    threading.Event().wait(_SOON_S)
    running.release()


def test_only_one_thread_runs_at_a_time() -> None:
    _together(*[partial(_run_alone, threading.Lock())] * 4)


def test_another_thread_runs_while_one_waits() -> None:
    """Each waits for the other, so neither could end if the one that waits kept its turn."""
    both = threading.Barrier(2, timeout=_LONG_S)

    def piece() -> None:
        with waiting():
            both.wait()

    _together(piece, piece)


def test_waiting_twice_is_like_waiting_once() -> None:
    both = threading.Barrier(2, timeout=_LONG_S)

    def piece() -> None:
        with waiting():
            both.wait()
            with waiting():
                both.wait()
            both.wait()

    _together(piece, piece)


def test_thread_needs_a_turn_again_after_it_waited() -> None:
    running = threading.Lock()
    both = threading.Barrier(2, timeout=_LONG_S)

    def piece() -> None:
        with waiting():
            both.wait()
        _run_alone(running)

    _together(piece, piece)


@pytest.mark.parametrize("fails_while_waiting", [False, True])
def test_failure_passes_the_turn_on(*, fails_while_waiting: bool) -> None:
    def piece() -> None:
        if fails_while_waiting:
            with waiting():
                raise OSError("the disk is full")
        raise OSError("the disk is full")

    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            in_turn(piece)


def test_lock_and_turn_do_not_block_two_threads_forever() -> None:
    """The second has the turn and waits for the lock. The first has the lock and wants the turn."""
    lock, held = threading.Lock(), threading.Event()

    def first() -> None:
        with lock:
            with waiting():
                held.set()
                threading.Event().wait(_SOON_S)
            with waiting():
                pass

    def second() -> None:
        with waiting():
            assert held.wait(_LONG_S)
        with lock:
            pass

    _together(first, second)
    _together(first)


def test_thread_that_wants_a_lock_lets_its_holder_run() -> None:
    lock, held = threading.Lock(), threading.Event()

    def first() -> None:
        with holding(lock):
            held.set()
            with waiting():
                threading.Event().wait(_SOON_S)

    def second() -> None:
        with waiting():
            assert held.wait(_LONG_S)
        with holding(lock):
            pass

    _together(first, second)
    assert not lock.locked()


def test_threads_that_take_turns_can_write_one_file(tmp_path: Path) -> None:
    def write(wishes: Sequence[int], *, again: bool) -> Sequence[bool]:
        fd = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
        sync(fd)
        os.close(fd)
        return [not again for _ in wishes]

    joint = JointWrites(write)
    _together(*[partial(joint.add, number) for number in range(16)])


def test_thread_without_a_turn_can_wait() -> None:
    with waiting():
        _together(lambda: None)
