"""The journal of a cleaning round: the changes that the driver will make to one partition. It is
written to disk before the first rename.

It lies in the staging directory, which Kafka's loader ignores. With it the next run can finish what
a crash interrupted (`winnow.logdir.commit.roll_forward`). If it is missing or unreadable, the round
never began or is given up, and only `winnow.logdir.commit.recovery` cleans up after the crash.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from winnow.errors import NO_SPACE, CorruptLogError
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.files import pieces
from winnow.logdir.names import (
    INDEX,
    JOURNAL,
    LOG,
    PREPARED,
    SEGMENT_SUFFIXES,
    TIMEINDEX,
    segment_file,
)
from winnow.logdir.stored import FromMinusOne, Natural, plain, stored
from winnow.state import Sources
from winnow.storage.contract import Storage
from winnow.storage.own_json import JsonValue, read_json
from winnow.wire.crc import crc32c_extended

VERSION = 1

_NEEDED = {LOG, INDEX, TIMEINDEX}


@dataclass(frozen=True, slots=True)
class StagedFile:
    """`name` is the name in the staging directory. The size is in bytes."""

    name: str
    size: Natural
    crc32c: Annotated[int, 0, 2**32 - 1] = -1
    """CRC-32C of the whole file. -1 in a journal of an earlier version, which has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedOutput:
    """A staged segment. Renames keep its sizes, times and content."""

    files: Mapping[str, StagedFile]
    """By suffix."""
    log_mtime_ms: Natural


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalGroup(Sources):
    """What the round does, or has done, with one group."""

    open_producers: tuple[Natural, ...]
    """Producers with transactional data before the group and after their last marker (S4.1)."""
    lingering: tuple[Natural, ...]
    """Producers whose aborted data, below the log start offset, counts as committed up to their
    next COMMIT (S4.1).
    """
    output: StagedOutput | None
    """None: the group has not been rewritten yet, or is `unchanged`."""
    unchanged: bool = False
    """The only source would be replaced by an equal segment, and stays."""

    @property
    def files(self) -> Mapping[str, StagedFile]:
        """The staged files of the output by suffix. Empty if there is no output."""
        return {} if self.output is None else self.output.files

    @property
    def staged(self) -> Mapping[str, StagedFile]:
        """The staged files of the output by their names in the staging directory."""
        return {file.name: file for file in self.files.values()}

    @property
    def saved_bytes(self) -> int:
        """By how much the output's log is smaller than those of the sources."""
        return sum(source.log_bytes for source in self.sources) - self.files[LOG].size


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The inputs for rewriting waiting groups, which a partly rewritten log no longer provides.

    An earlier Winnow, which knew the rules of one Kafka version, wrote no field that has a default.
    """

    first_dirty_offset: Natural
    legacy_delete_horizon_ms: int
    """Tombstones of v0 and v1 are kept in segments whose `.log` is younger (S5.1)."""
    last_records: tuple[tuple[Natural, Natural | None, FromMinusOne], ...]
    """Producer id, offset of its last data batch, epoch (S5.4)."""
    delete_horizons: bool = True
    """Whether batches have delete horizons (S5.8)."""
    converts: bool = True
    """Whether what remains of v0 and v1 becomes v2 (S2.5)."""
    emptied_end: Natural | None = -1
    """Where a batch must end to be kept although it keeps no record (S5.4). -1: where the round
    ends.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    run_id: str
    now: Natural
    """The clock of the round, ms."""
    end_offset: Natural
    """The cleaner checkpoint after all groups are in place."""
    checkpoint_before: int | None
    groups: tuple[JournalGroup, ...]
    """Ascending. The waiting ones come last."""
    rest: Rest | None
    """None: no group is waiting."""

    @property
    def waiting(self) -> tuple[JournalGroup, ...]:
        """The groups that have not been rewritten yet."""
        return tuple(g for g in self.groups if g.output is None and not g.unchanged)

    @property
    def has_checksums(self) -> bool:
        """Whether all staged files have checksums. Without them nobody can tell whether a file is
        still what was staged.
        """
        return all(file.crc32c >= 0 for group in self.groups for file in group.files.values())


def with_staged(
    storage: Storage,
    journal: Journal,
    staged: Iterable[StagedGroup],
    unchanged: Collection[int] = (),
) -> Journal:
    """Return the journal of a round in which these groups are staged too. `unchanged`: base offsets
    of the groups whose only source stays.

    Takes the sizes of the staged files, and reads the files whose checksum is not given.
    """
    outputs = {group.base_offset: _output(storage, group) for group in staged}
    groups = tuple(
        replace(
            group,
            output=outputs.get(group.base_offset, group.output),
            unchanged=group.unchanged or group.base_offset in unchanged,
        )
        for group in journal.groups
    )
    after = replace(journal, groups=groups)
    return after if after.waiting else replace(after, rest=None)


def _output(storage: Storage, group: StagedGroup) -> StagedOutput:
    files: dict[str, StagedFile] = {}
    for suffix, path in group.paths.items():
        entry, checksum = group.entries.get(suffix), group.checksums.get(suffix)
        entry = entry or storage.entry(path)
        checksum = file_crc32c(storage, path) if checksum is None else checksum
        files[suffix] = StagedFile(entry.name, entry.size, checksum)
    log = group.entries.get(LOG) or storage.entry(group.paths[LOG])
    return StagedOutput(files=files, log_mtime_ms=log.mtime_ms)


def file_crc32c(storage: Storage, path: str) -> int:
    checksum = 0
    for _, piece in pieces(storage, path):
        checksum = crc32c_extended(checksum, piece)
    return checksum


def write_journal(storage: Storage, staging: str, journal: Journal) -> None:
    """Write it to the staging directory, replacing an earlier one. When this returns, the journal
    and the names of all staged files are durable.

    On a full disk the room of `prepared.json` is used: it says more than the journal, and is not
    needed any more. Without both, staged files are a leftover, and the log is as it was.
    """
    path, temporary = f"{staging}/{JOURNAL}", f"{staging}/{JOURNAL}.tmp"
    data = json.dumps({"version": VERSION, **_as_written(journal)}).encode()
    with storage.changing(staging):
        try:
            _create_anew(storage, temporary, data)
        except OSError as error:
            if error.errno not in NO_SPACE or not storage.exists(f"{staging}/{PREPARED}"):
                raise
            storage.unlink(f"{staging}/{PREPARED}")
            _create_anew(storage, temporary, data)
        storage.fsync_dir(staging)
        storage.rename(temporary, path)
        storage.fsync_dir(staging)
    storage.fsync_dir(staging.rpartition("/")[0])


def _create_anew(storage: Storage, path: str, data: bytes) -> None:
    if storage.exists(path):
        storage.unlink(path)
    storage.create(path, data)


def _as_written(journal: Journal) -> dict[str, Any]:
    """Return the journal as it is stored. An earlier Winnow refuses a field that it does not know,
    and wrote no checksums.
    """
    content: dict[str, Any] = plain(journal)
    for group in content["groups"]:
        if not group["unchanged"]:
            del group["unchanged"]
        for file in (group["output"] or {"files": {}})["files"].values():
            if file["crc32c"] < 0:
                del file["crc32c"]
    return content


def leave_journal(storage: Storage, staging: str) -> None:
    """Remove everything else: files of duplicate tasks, and of groups that are staged again."""
    for entry in storage.list_dir(staging):
        if entry.name != JOURNAL:
            storage.unlink(f"{staging}/{entry.name}")


def read_journal(storage: Storage, staging: str) -> Journal | None:
    """Return None if there is none or no run wrote it: a round can always be given up."""
    try:
        return _journal(read_json(storage, f"{staging}/{JOURNAL}"))
    except CorruptLogError:
        return None


def _journal(value: JsonValue) -> Journal:
    """Raises CorruptLogError for anything that `write_journal` would not have written."""
    value.fields({"version"}, None)["version"].version(VERSION)
    journal = stored(value, Journal, beside={"version"})
    groups, waiting, rest = journal.groups, journal.waiting, journal.rest
    bases = [base for group in groups for base in group.source_bases]
    if not (
        all(map(_is_sound, groups))
        and min(bases, default=-1) >= 0
        and bases == sorted(set(bases))
        and bases[-1] < journal.end_offset
        and waiting == groups[len(groups) - len(waiting) :]
        and (rest is None) is not bool(waiting)
    ):
        raise value.refused("groups that ascend, the waiting ones at the end", "others")
    if rest is not None and rest.emptied_end == -1:
        return replace(journal, rest=replace(rest, emptied_end=journal.end_offset))
    return journal


def _is_sound(group: JournalGroup) -> bool:
    sizes = [size for source in group.sources for size in source.index_sizes if size is not None]
    if not group.sources or min(sizes, default=0) < 0:
        return False
    if group.output is None:
        return len(group.sources) == 1 or not group.unchanged
    names = {suffix: file.name for suffix, file in group.files.items()}
    return not group.unchanged and are_staged(names, group.base_offset)


def are_staged(names: Mapping[str, str], base_offset: int) -> bool:
    """Whether these are names of all staged files of a segment, by suffix. They become paths."""
    return _NEEDED <= names.keys() <= {*SEGMENT_SUFFIXES} and all(
        _is_attempt(name, segment_file(base_offset, suffix)) for suffix, name in names.items()
    )


def _is_attempt(name: str, at: str) -> bool:
    """Whether this is the name of an attempt at a file."""
    attempt = name.removeprefix(f"{at}.")
    return attempt != name and attempt.isascii() and attempt.isalnum()
