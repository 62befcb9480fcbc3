"""The journal of a cleaning round: the changes that the driver will make to one partition. It is
written to disk before the first rename.

It lies in the staging directory, which Kafka's loader ignores. With it the next run can finish what
a crash interrupted (`winnow.logdir.commit.roll_forward`). If it is missing or unreadable, the round
never began or is given up, and only `winnow.logdir.commit.recovery` cleans up after the crash.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from winnow.errors import CorruptLogError
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.names import INDEX, LOG, SEGMENT_SUFFIXES, TIMEINDEX, segment_file
from winnow.state import Segment
from winnow.storage.contract import Entry, Storage
from winnow.storage.own_json import MAX_LONG, Value, read_json
from winnow.wire.crc import crc32c_extended

JOURNAL = "round.json"
VERSION = 1

_LEFT_OUT = frozenset({"log_stamp", "rebuilt"})
"""Fields of a source that are not recorded. Stamps differ in a copy. A run that continues reads
again what a broker recovers.
"""
_NEEDED = {LOG, INDEX, TIMEINDEX}


@dataclass(frozen=True, slots=True)
class StagedFile:
    """`name` is the name in the staging directory. The size is in bytes."""

    name: str
    size: int
    crc32c: int | None = None
    """CRC-32C of the whole file. None in a journal of an earlier version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A staged segment. Renames keep its sizes, times and content."""

    files: Mapping[str, StagedFile]
    """By suffix."""
    log_mtime_ms: int

    @property
    def log_bytes(self) -> int:
        return self.files[LOG].size


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalGroup:
    """Sources that become one segment. Its base offset is that of the first source."""

    sources: tuple[Segment, ...]
    """As they were when they were listed."""
    open_producers: tuple[int, ...] = ()
    """Producers with transactional data before the group and after their last marker (S4.1)."""
    lingering: tuple[int, ...] = ()
    """Producers whose aborted data, below the log start offset, counts as committed up to their
    next COMMIT (S4.1).
    """
    output: Output | None = None
    """None: the group has not been rewritten yet, or is `unchanged`."""
    unchanged: bool = False
    """The only source would be replaced by an equal segment, and stays."""

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset

    @property
    def source_bases(self) -> tuple[int, ...]:
        return tuple(source.base_offset for source in self.sources)

    @property
    def log_bytes(self) -> int:
        return sum(source.log_bytes for source in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The inputs for rewriting waiting groups, which a partly rewritten log no longer provides."""

    first_dirty_offset: int
    legacy_delete_horizon_ms: int
    """Tombstones of v0 and v1 are kept in segments whose `.log` is younger (S5.1)."""
    last_records: tuple[tuple[int, int | None, int], ...]
    """Producer id, offset of its last data batch, epoch (S5.4)."""
    delete_horizons: bool
    """Whether batches have delete horizons (S5.8)."""
    converts: bool
    """Whether what remains of v0 and v1 becomes v2 (S2.5)."""
    emptied_end: int | None
    """Where a batch must end to be kept although it keeps no record (S5.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    run_id: str
    now: int
    """The clock of the round, ms."""
    end_offset: int
    """The cleaner checkpoint after all groups are in place."""
    checkpoint_before: int | None
    groups: tuple[JournalGroup, ...]
    """Ascending. The waiting ones come last."""
    rest: Rest | None = None
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
        files = (
            file for group in self.groups if group.output for file in group.output.files.values()
        )
        return all(file.crc32c is not None for file in files)


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


def _output(storage: Storage, group: StagedGroup) -> Output:
    entries: dict[str, Entry] = {
        suffix: group.entries.get(suffix) or storage.entry(path)
        for suffix, path in group.paths.items()
    }
    files = {
        suffix: StagedFile(entry.name, entry.size, _checksum(storage, group, suffix))
        for suffix, entry in entries.items()
    }
    return Output(files=files, log_mtime_ms=entries[LOG].mtime_ms)


def _checksum(storage: Storage, group: StagedGroup, suffix: str) -> int:
    known = group.checksums.get(suffix)
    return file_crc32c(storage, group.paths[suffix]) if known is None else known


_READ_BYTES = 8 << 20


def file_crc32c(storage: Storage, path: str) -> int:
    checksum, at = 0, 0
    while piece := storage.read_range(path, at, _READ_BYTES):
        checksum = crc32c_extended(checksum, piece)
        at += len(piece)
    return checksum


def write_journal(storage: Storage, staging: str, journal: Journal) -> None:
    """Write it to the staging directory, replacing an earlier one. When this returns, the journal
    and the names of all staged files are durable.
    """
    path, temporary = f"{staging}/{JOURNAL}", f"{staging}/{JOURNAL}.tmp"
    content = {"version": VERSION, **asdict(journal, dict_factory=_without_stamps)}
    with storage.changing(staging):
        if storage.exists(temporary):
            storage.unlink(temporary)
        storage.create(temporary, json.dumps(content).encode())
        storage.fsync_dir(staging)
        storage.rename(temporary, path)
        storage.fsync_dir(staging)
    storage.fsync_dir(staging.rpartition("/")[0])


def _without_stamps(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Drop what is not recorded. A hard link that is kept of a file has another stamp, too."""
    kept = {name: value for name, value in items if name not in _LEFT_OUT}
    if kept.get("crc32c", 0) is None:  # `read_journal` wants a checksum or no field
        del kept["crc32c"]
    if kept.get("unchanged") is False:  # an earlier version knows no such field
        del kept["unchanged"]
    return kept


def leave_journal(storage: Storage, staging: str) -> None:
    """Remove everything else: files of duplicate tasks, and of groups that are staged again."""
    for entry in storage.list_dir(staging):
        if entry.name != JOURNAL:
            storage.unlink(f"{staging}/{entry.name}")


def read_journal(storage: Storage, staging: str) -> Journal | None:
    """Return None if there is none or no run wrote it: a round can always be given up."""
    path = f"{staging}/{JOURNAL}"
    if not storage.exists(path):
        return None
    try:
        return _journal(read_json(storage, path))
    except CorruptLogError:
        return None


def _journal(value: Value) -> Journal:
    """Raises CorruptLogError for anything that `write_journal` would not have written."""
    found = value.fields({"version", *_names(Journal)})
    found["version"].version(VERSION)
    groups = tuple(_group(group) for group in found["groups"].items())
    bases = [base for group in groups for base in group.source_bases]
    if not groups or bases != sorted(set(bases)):
        raise found["groups"].refused("base offsets that ascend")
    journal = Journal(
        run_id=found["run_id"].text(),
        now=found["now"].integer(),
        end_offset=found["end_offset"].integer(least=bases[-1] + 1),
        checkpoint_before=found["checkpoint_before"].integer_or_none(least=-MAX_LONG),
        groups=groups,
        rest=None
        if found["rest"].raw is None
        else _rest(found["rest"], end_offset=found["end_offset"].integer()),
    )
    waiting = journal.waiting
    if waiting != groups[len(groups) - len(waiting) :] or (journal.rest is None) is bool(waiting):
        raise found["groups"].refused("waiting groups at the end, and only with `rest`")
    return journal


def _rest(value: Value, *, end_offset: int) -> Rest:
    """Without its last fields, a journal is from a Winnow that knew one version's rules."""
    optional = {"delete_horizons", "converts", "emptied_end"}
    found = value.fields(_names(Rest) - optional, optional)
    end = found.get("emptied_end")
    return Rest(
        first_dirty_offset=found["first_dirty_offset"].integer(),
        legacy_delete_horizon_ms=found["legacy_delete_horizon_ms"].integer(least=-MAX_LONG),
        last_records=tuple(_last_record(record) for record in found["last_records"].items()),
        delete_horizons="delete_horizons" not in found or found["delete_horizons"].boolean(),
        converts="converts" not in found or found["converts"].boolean(),
        emptied_end=end_offset if end is None else end.integer_or_none(),
    )


def _last_record(value: Value) -> tuple[int, int | None, int]:
    producer, offset, epoch = value.items(length=3)
    return producer.integer(), offset.integer_or_none(), epoch.integer(least=-1)


def _group(value: Value) -> JournalGroup:
    found = value.fields(_names(JournalGroup) - {"unchanged"}, {"unchanged"})
    sources = tuple(_segment(source) for source in found["sources"].items())
    if not sources:
        raise found["sources"].refused("at least one segment")
    unchanged = "unchanged" in found and found["unchanged"].boolean()
    if unchanged and (len(sources) > 1 or found["output"].raw is not None):
        raise found["unchanged"].refused("one source and no output")
    return JournalGroup(
        sources=sources,
        open_producers=tuple(producer.integer() for producer in found["open_producers"].items()),
        lingering=tuple(producer.integer() for producer in found["lingering"].items()),
        output=None
        if found["output"].raw is None
        else _read_output(found["output"], sources[0].base_offset),
        unchanged=unchanged,
    )


def _read_output(value: Value, base_offset: int) -> Output:
    found = value.fields(_names(Output))
    files = found["files"].fields(_NEEDED, SEGMENT_SUFFIXES)
    return Output(
        files={
            suffix: _file(file, segment_file(base_offset, suffix)) for suffix, file in files.items()
        },
        log_mtime_ms=found["log_mtime_ms"].integer(),
    )


def _segment(value: Value) -> Segment:
    numbers = {
        name: number.integer_or_none()
        if name.endswith("index_bytes")
        else number.integer(least=-MAX_LONG)
        for name, number in value.fields(_names(Segment) - _LEFT_OUT).items()
    }
    segment = Segment(**numbers)  # type: ignore[arg-type]  # only the sizes of indexes may be None
    if segment.base_offset < 0:
        raise value.refused("a base offset of 0 or more", str(segment.base_offset))
    return segment


def _file(value: Value, name: str) -> StagedFile:
    """Read a staged file. Its name becomes a path, so only an attempt at this file is accepted."""
    found = value.fields({"name", "size"}, {"crc32c"})
    text = found["name"].text()
    attempt = text.removeprefix(f"{name}.")
    if not (attempt.isascii() and attempt.isalnum()) or f"{name}.{attempt}" != text:
        raise found["name"].refused(f"{name}. and letters or digits")
    checksum = found["crc32c"].integer(most=2**32 - 1) if "crc32c" in found else None
    return StagedFile(text, found["size"].integer(), checksum)


def _names(kind: type[Any]) -> set[str]:
    return {field.name for field in fields(kind)}
