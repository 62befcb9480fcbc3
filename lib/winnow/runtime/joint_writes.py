"""Let threads share the writes of one file.

One thread writes at a time. What others want meanwhile is written together by the next one: with
sixteen commits under way, their common checkpoint is written and synced once for several of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from winnow.storage.turns import holding

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[_T]):
    wish: _T
    changed: bool | None = None
    """What the write reported. None: not written yet."""
    alone: bool = False
    """A joint write of this and others was begun. If it failed, each is written alone."""


class JointWrites(Generic[_T]):
    """Writes of one file by the threads of this process.

    `write`: takes wishes, writes them, and returns for each whether it changed the file. With
    `again`, an earlier write may have ended halfway, so it writes even if nothing changes.
    """

    def __init__(self, write: Callable[..., Sequence[bool]]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._queue: deque[_Waiting[_T]] = deque()

    def add(self, wish: _T) -> bool:
        """Return whether it changed the file, once it is written. Raises what the write raises.

        If a write of several wishes fails, each is written alone, so one thread's failure is not
        that of another.
        """
        mine = _Waiting(wish)
        self._queue.append(mine)
        with holding(self._lock):
            if mine.changed is None:
                together = []
                while self._queue and not mine.alone:
                    together.append(self._queue.popleft())
                if len(together) > 1:
                    self._together(together)
                if mine.changed is None:
                    (mine.changed,) = self._write([wish], again=mine.alone)
        return mine.changed

    def _together(self, together: Sequence[_Waiting[_T]]) -> None:
        for one in together:
            one.alone = True
        try:
            changed = self._write([one.wish for one in together], again=False)
        except Exception:  # noqa: BLE001 - each finds out alone what is wrong, and raises it
            return
        for one, result in zip(together, changed, strict=True):
            one.changed = result
