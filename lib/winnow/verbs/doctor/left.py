"""Find what crashes and earlier runs left in the partitions, and what it takes on the disk."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark import SparkContext

from winnow.logdir.commit.kept import kept_path, kept_run_ids
from winnow.logdir.commit.recovery import preview
from winnow.logdir.files import tree_bytes
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread
from winnow.storage.places import Places
from winnow.verbs.doctor.values import Gain

_SECONDS = 0.01
"""Time to remove the files of one partition, and to sync."""


def left_behind(
    sc: SparkContext, directories: Sequence[str], *, progress: Progress
) -> tuple[Gain, ...]:
    """Return what `recover` would free in these partition directories, and what a purge would.

    A directory that can't be listed, or where `recover` would refuse, counts nothing.
    """
    found = spread(
        sc, _left_in, directories, per_task=10_000, name="looking for leftovers", progress=progress
    )
    known = [one for one in found if not isinstance(one, Failure)]
    return tuple(
        Gain(
            what=what,
            partitions=len(sizes),
            freed_bytes=sum(sizes),
            freed_inodes=inodes,
            seconds=_SECONDS * len(sizes),
        )
        for what, sizes, inodes in (
            (
                "leftovers",
                [left for left, _, many in known if left or many],
                sum(many for _, _, many in known),
            ),
            ("kept", [kept for _, kept, _ in known if kept], None),
        )
        if sizes
    )


def _left_in(directory: str) -> tuple[int, int, int]:
    """Return the bytes that `recover` would remove, those kept for an undo, and how many files and
    directories it would remove at least.
    """
    storage = Places()
    entries = storage.list_dir(directory)
    removed = {*preview(storage, directory, entries).removed}
    left = sum(
        tree_bytes(storage, f"{directory}/{entry.name}") if entry.is_dir else entry.size
        for entry in entries
        if entry.name in removed
    )
    runs = kept_run_ids(storage, directory)
    kept = sum(tree_bytes(storage, kept_path(directory, run)) for run in runs)
    return left, kept, len(removed)
