"""Recognise a torn copy: one that was made of a log directory while its broker ran, file by file.

Its checkpoints may be newer than its logs. A broker that is killed does not leave that: what it
wrote stays in the page cache. A machine that loses power can, and so does a start on a full disk:
it empties logs and leaves their segments as `.deleted` files (`winnow.logdir.commit.lost`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from winnow.logdir.commit.lost import only_in_deleted
from winnow.storage.places import Places
from winnow.words import first_few

if TYPE_CHECKING:
    from winnow.logdir.survey import LogDir
    from winnow.state import PartitionState

_MOST_NAMED = 3


def behind_in(log_dir: LogDir, states: Mapping[str, PartitionState]) -> tuple[str, ...]:
    """Return the partitions of a log directory whose logs end below the high watermark in the
    checkpoint; empty after a clean shutdown. `states`: by directory.
    """
    if log_dir.clean_shutdown:
        return ()
    found = (
        at
        for at, offset in log_dir.checkpoints.high_watermark.items()
        if (state := states.get(f"{log_dir.path}/{at}")) is not None
        and offset > state.log_end_offset
    )
    return tuple(map(str, sorted(found)))


def was_emptied(directory: str) -> bool:
    """Return whether the log was emptied by a broker that started on a full disk."""
    entries = Places().list_dir(directory)
    return bool(only_in_deleted({entry.name: entry.size for entry in entries if entry.is_file}))


def torn(log_dir: str, behind: Sequence[str]) -> str:
    """Return what it means that logs end below their checkpoints where no clean shutdown was.

    `behind`: the partitions, not empty.
    """
    end = "ends" if len(behind) == 1 else "end"
    return (
        f"{log_dir} is a copy that was made while its broker ran, or its machine lost power: "
        f"{first_few(behind, _MOST_NAMED)} {end} below a checkpoint, and a broker that was only "
        "killed leaves no such log. The files of such a copy are from different moments, so what "
        "is found in it says nothing about the original: run this command on the original, also "
        "while its broker runs. For a copy as of one moment, take a snapshot of the volume, or "
        "stop the broker"
    )
