"""The driver's requests that change something in a bucket: counted, observed, and stopped after any
of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
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

    def _put(self, *arguments: Any) -> str:
        return str(self._one(super()._put, *arguments))

    def _parts(self, *arguments: Any) -> str:
        return str(self._one(super()._parts, *arguments))
