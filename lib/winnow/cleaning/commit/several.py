"""Commit several partitions at the same time (docs/decisions/0050)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from winnow.cleaning.space import commits_at_once
from winnow.runtime.side_by_side import side_by_side
from winnow.storage.turns import in_turn
from winnow.storage.urls import is_remote

_T = TypeVar("_T")


def commit_several(
    commits: Sequence[Callable[[], _T]],
    directories: Sequence[str],
    *,
    most_segments: int = 0,
    done: Callable[[], None],
) -> list[_T]:
    """Call the commits of partitions, and `done` after each. Return their results in order.

    `directories`, `most_segments`: see `commits_at_once`. Commits on this machine take turns
    wherever they do not wait for the disk.
    """
    if not any(map(is_remote, directories)):
        commits = [partial(in_turn, commit) for commit in commits]
    return side_by_side(
        commits, at_once=commits_at_once(directories, most_segments=most_segments), done=done
    )
