"""The driver's requests that change something in a bucket: counted, observed, and stopped after any
of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from winnow.storage.s3.bucket import S3Bucket


class Died(BaseException):
    """As by SIGKILL: no handler takes it for an error, and nothing changes afterwards."""


class Counting(S3Bucket):
    """`left`: how many requests are made before it dies; None: all. `after` is called after each of
    them.
    """

    def __init__(
        self, name: str, *, left: int | None = None, after: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(name)
        self.made = 0
        self._left = left
        self._after = after
        self._guard = threading.Lock()

    def _one(self, request: Callable[..., Any], *arguments: Any) -> Any:
        with self._guard:
            if self.made == self._left:
                raise Died
            self.made += 1
            answer = request(*arguments)
            self._after()
            return answer

    def copy(self, source: str, target: str) -> None:
        self._one(super().copy, source, target)

    def _delete(self, names: list[str]) -> None:
        self._one(super()._delete, names)

    def _put(self, *arguments: Any, **how: Any) -> str:
        return str(self._one(partial(super()._put, **how), *arguments))


PATIENCE_S = 0.5
"""After this time without a request of the one whose turn it is, the other goes on until its next
request: it may wait for the file that both share.
"""


class TakingTurns(Counting):
    """Decides which of several partitions makes the next request."""

    def __init__(
        self, name: str, partitions: Sequence[str], turns: Iterator[str], *, left: int | None = None
    ) -> None:
        super().__init__(name, left=left)
        self.owners: list[str] = []
        """Partition of each request that was made."""
        self._partitions = {*partitions}
        self._turns = turns
        self._next = next(turns)
        self._changed = threading.Condition()
        self._away: set[str] = set()
        """Those that nobody waits for until their next request."""

    def end(self, partition: str) -> None:
        """Wait for this one no more."""
        with self._changed:
            self._partitions.discard(partition)
            self._changed.notify_all()

    def _one(self, request: Callable[..., Any], *arguments: Any) -> Any:
        keys = f"{arguments[0]}/"
        who = next((name for name in self._partitions if f"/{name}/" in keys), None)
        with self._changed:
            self._away.discard(who or "")
            if who is not None:
                came = self._changed.wait_for(
                    lambda: self._next == who or self._next not in self._partitions - self._away,
                    timeout=PATIENCE_S,
                )
                if not came:
                    self._away.add(self._next)
            answer = super()._one(request, *arguments)
            if who is not None:
                self.owners.append(who)
                self._next = next(self._turns)
            self._changed.notify_all()
            return answer
