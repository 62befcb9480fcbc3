"""Check that this process may still change a directory, before each change.

`winnow.storage.places` checks at every change, so no path bypasses it. Tasks run in other
processes. They write new files into a staging directory. When the log directory gets another owner,
that owner takes the staging directory away.
"""

from __future__ import annotations

from collections.abc import Callable

_FENCES: dict[str, Callable[[], None]] = {}


def put_fence(directory: str, check: Callable[[], None]) -> None:
    """Add a fence. `check` raises an error if nothing in or below the directory may be changed."""
    _FENCES[directory] = check


def lift_fence(directory: str) -> None:
    _FENCES.pop(directory, None)


def check_fences(path: str) -> None:
    for directory, check in tuple(_FENCES.items()):
        if path == directory or path.startswith(f"{directory}/"):
            check()
