"""Commit several partitions at the same time (docs/decisions/0050)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from winnow.runtime.progress import Progress
from winnow.runtime.side_by_side import side_by_side
from winnow.storage.places import KEEP_FREE_BYTES, free_bytes
from winnow.storage.turns import in_turn
from winnow.storage.urls import is_remote

_T = TypeVar("_T")
COMMITS_AT_ONCE = 16
"""Their syncs overlap: one write of a file system's journal makes several of them durable. So do
their requests to S3 and HDFS.
"""
_JOURNAL_SEGMENT_BYTES = 2**11
"""Bytes of a journal for each segment, at most, unless many transactions are open."""


def commit_several(
    commits: Sequence[Callable[[], _T]],
    directories: Sequence[str],
    progress: Progress,
    *,
    doing: str = "",
    most_segments: int = 0,
) -> list[_T]:
    """Call the commits of partitions. Return their results in order.

    `doing`: the stage of `progress`, if this begins one. `directories`, `most_segments`: see
    `commits_at_once`. Commits on this machine take turns wherever they do not wait for the disk.
    """
    if doing and commits:
        progress.stage(doing, total_tasks=len(commits))
    if not any(map(is_remote, directories)):
        commits = [partial(in_turn, commit) for commit in commits]
    at_once = commits_at_once(directories, most_segments=most_segments)
    return side_by_side(commits, at_once=at_once, done=partial(progress.advance, 1))


def commits_at_once(directories: Iterable[str], *, most_segments: int = 0) -> int:
    """Return how many partitions may be committed at the same time: one where space is short.

    A commit writes its journal, a checkpoint and perhaps an empty segment before it frees anything.
    What is kept free by default is enough for one (docs/decisions/0012). So each of them must find
    as much. One commit at a time uses what the ones before it have freed.

    `most_segments`: the most segments that the journal of one of them lists.
    """
    each = KEEP_FREE_BYTES + most_segments * _JOURNAL_SEGMENT_BYTES
    most = COMMITS_AT_ONCE
    for directory in directories:
        with suppress(OSError):  # its own commit will report that
            most = min(most, free_bytes(directory, keep_free=0) // each)
    return max(1, most)
