"""The preparations that lie in a partition directory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from winnow.cleaning.prepared.value import PreparedPartition, read_prepared
from winnow.clock import RUN_ID
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, failure_of
from winnow.logdir.commit.leftovers import staging_entries
from winnow.logdir.names import GONE, JOURNAL, LEADER_EPOCHS, PREPARED, STAGING_PREFIX
from winnow.logdir.survey import LogDir
from winnow.state import TopicPartition
from winnow.storage.contract import Entry, Storage, entry_if_there
from winnow.storage.live.identity import writer_of
from winnow.storage.urls import is_remote

_LEAST, _OF_A_FILE, _MOST_EPOCHS = 64 << 10, 4 << 10, 2 << 20
"""Bytes of `prepared.json`, in all and for each file of the partition: it takes 2 KB for a segment,
which has three files or more, and has the leader epochs. Otherwise its writer could make a commit
take any amount of memory, while a broker waits for it.
"""
_MOST = 16
"""Preparations of a partition that are read. `prepare` leaves one, or two for a moment."""
_OF_A_RUN = re.compile(f"{re.escape(STAGING_PREFIX)}{RUN_ID}({re.escape(GONE)})?")


@dataclass(frozen=True, slots=True)
class Existing:
    """A staging directory."""

    log_dir: LogDir
    topic_partition: TopicPartition
    staging: str
    journal: bool
    """Whether a commit has begun to use it."""
    prepared: PreparedPartition | None
    """None: it is not a preparation, or it can't be read."""
    writer: int | None = None
    """The user who wrote the preparation. None if that is unknown."""
    problem: str | None = None
    """Why a preparation can't be read."""
    beside: Sequence[Entry] = ()
    """What is in the partition directory."""
    inside: Mapping[str, Entry] = field(default_factory=dict)
    """What is in the staging directory, by name."""

    @property
    def is_preparation(self) -> bool:
        """Whether `prepare` has finished it, and no commit has begun to use it."""
        return not self.journal and (self.prepared is not None or self.problem is not None)


def existing_in(
    storage: Storage, log_dir: LogDir, topic_partition: TopicPartition
) -> Iterator[Existing]:
    """Yield the staging directories of a partition that `prepare` or a cleaning may have made.
    Those of other work, such as of an undo, are left to `recover`.
    """
    directory = f"{log_dir.path}/{topic_partition}"
    try:
        entries = storage.list_dir(directory)
    except FileNotFoundError:  # its topic was deleted meanwhile
        return
    epochs = sum(entry.size for entry in entries if entry.name == LEADER_EPOCHS)
    most, left = _LEAST + _OF_A_FILE * len(entries) + 2 * min(epochs, _MOST_EPOCHS), _MOST
    for name in _of_runs(entries):
        staging = f"{directory}/{name}"
        try:
            inside = {entry.name: entry for entry in storage.list_dir(staging)}
        except FileNotFoundError:  # another run has removed it
            continue
        prepared, problem, writer = None, None, None
        journal = JOURNAL in inside
        if PREPARED in inside and not journal and not name.endswith(GONE):
            above = (log_dir.path, directory, staging)
            left -= 1
            try:
                if left < 0:
                    raise CorruptLogError(
                        f"a partition has more than {_MOST} preparations",
                        where=staging,
                        hint="`recover` removes them.",
                    )
                prepared = read_prepared(storage, staging, most=most)
                if not is_remote(staging):
                    writer = writer_of([*above, f"{staging}/{PREPARED}"])
            except FAILS_ONE_PARTITION as error:
                problem = failure_of(error).partition("\n")[0]
        yield Existing(
            log_dir, topic_partition, staging, journal, prepared, writer, problem, entries, inside
        )


def names_of_existing(storage: Storage, directory: str) -> tuple[str, ...]:
    """Return the names of the staging directories that `existing_in` yields."""
    try:
        names = [name for name in storage.names(directory) if _OF_A_RUN.fullmatch(name)]
    except FileNotFoundError:
        return ()
    there = {name: entry_if_there(storage, f"{directory}/{name}") for name in sorted(names)}
    return tuple(name for name, entry in there.items() if entry is not None and entry.is_dir)


def _of_runs(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the names of the staging directories that cleanings and preparations have created."""
    there = staging_entries(entries)
    return tuple(e.name for e in there if e.is_dir and _OF_A_RUN.fullmatch(e.name))
