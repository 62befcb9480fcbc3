"""What is asked before this process changes anything in a directory: whether it still may.

`winnow.storage.places` asks at every change, so that no way to a file leads past it. Tasks run in
other processes. They write new files into a staging directory, which is taken away from them when
the directory gets another owner.
"""

from __future__ import annotations

from collections.abc import Callable

_FENCES: dict[str, Callable[[], None]] = {}


def put_fence(directory: str, check: Callable[[], None]) -> None:
    """`check` raises what is wrong with changing something in the directory or below."""
    _FENCES[directory] = check


def lift_fence(directory: str) -> None:
    _FENCES.pop(directory, None)


def check_fences(path: str) -> None:
    for directory, check in tuple(_FENCES.items()):
        if path == directory or path.startswith(f"{directory}/"):
            check()
