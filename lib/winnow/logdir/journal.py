"""The journal of a cleaning round: what the driver is about to do to one partition, on disk before the first rename.

It lies in the staging directory, where Kafka's loader does not look. With it the next run can finish what a crash
interrupted (`winnow.logdir.roll_forward`); without it, or with one that can't be understood, the round was never begun
or is given up, and what the crash left is for `winnow.logdir.recovery` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from winnow.logdir.names import INDEX, LOG, SEGMENT_SUFFIXES, TIMEINDEX, segment_file
from winnow.logdir.state import Segment
from winnow.logdir.swap import StagedGroup
from winnow.storage.contract import Entry, Storage

JOURNAL = "round.json"
VERSION = 1

_MAX_LONG = 2**63 - 1
_STAMP = "log_stamp"
_NEEDED = {LOG, INDEX, TIMEINDEX}


@dataclass(frozen=True, slots=True)
class StagedFile:
    """`name` is that in the staging directory; the size is in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A staged segment; it keeps sizes and times when it is renamed."""

    files: Mapping[str, StagedFile]
    """By suffix."""
    log_mtime_ms: int

    @property
    def log_bytes(self) -> int:
        return self.files[LOG].size


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalGroup:
    """What becomes one segment: its base offset is that of the first source."""

    sources: tuple[Segment, ...]
    """As they were when they were looked at."""
    open_producers: tuple[int, ...] = ()
    """Those with transactional data before the group after their last marker (S4.1)."""
    lingering: tuple[int, ...] = ()
    """Those whose aborted data, below the log start offset, counts as committed up to their next COMMIT (S4.1)."""
    output: Output | None = None
    """None: its turn has not come yet."""

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
    """What the groups that have no output yet are to be rewritten with: the log no longer tells it when some have."""

    first_dirty_offset: int
    legacy_delete_horizon_ms: int
    """Tombstones of v0 and v1 stay in segments whose `.log` is younger (S5.1)."""
    last_records: tuple[tuple[int, int | None, int], ...]
    """Producer id, offset of its last data batch, epoch (S5.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    run_id: str
    now: int
    """The clock of the round, ms."""
    end_offset: int
    """The cleaner checkpoint when all groups are in place."""
    checkpoint_before: int | None
    groups: tuple[JournalGroup, ...]
    """Ascending; those without an output come last."""
    rest: Rest | None = None
    """None: all groups have their output."""

    @property
    def waiting(self) -> tuple[JournalGroup, ...]:
        """The groups without an output."""
        return tuple(group for group in self.groups if group.output is None)


def with_staged(storage: Storage, journal: Journal, staged: Iterable[StagedGroup]) -> Journal:
    """The journal of a round of which these groups have been staged as well; looks at the sizes of their files."""
    outputs = {group.base_offset: _output(storage, group) for group in staged}
    groups = tuple(
        replace(group, output=outputs[group.base_offset]) if group.base_offset in outputs else group
        for group in journal.groups
    )
    complete = all(group.output is not None for group in groups)
    return replace(journal, groups=groups, rest=None if complete else journal.rest)


def _output(storage: Storage, group: StagedGroup) -> Output:
    entries: dict[str, Entry] = {suffix: storage.entry(path) for suffix, path in group.paths.items()}
    files = {suffix: StagedFile(entry.name, entry.size) for suffix, entry in entries.items()}
    return Output(files=files, log_mtime_ms=entries[LOG].mtime_ms)


def write_journal(storage: Storage, staging: str, journal: Journal) -> None:
    """Puts it into the staging directory, in the place of an earlier one. It lasts when this returns, as do the names
    of all that is staged.
    """
    path, temporary = f"{staging}/{JOURNAL}", f"{staging}/{JOURNAL}.tmp"
    told = {"version": VERSION, **asdict(journal, dict_factory=_without_stamps)}
    with storage.changing(staging):
        if storage.exists(temporary):
            storage.unlink(temporary)
        storage.create(temporary, json.dumps(told).encode())
        storage.fsync_dir(staging)
        storage.rename(temporary, path)
        storage.fsync_dir(staging)
    storage.fsync_dir(staging.rpartition("/")[0])


def _without_stamps(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """A copy of a log directory, or a link that is kept of a file, has other stamps and the same bytes."""
    return {name: value for name, value in items if name != _STAMP}


def leave_journal(storage: Storage, staging: str) -> None:
    """Removes everything else: files of tasks that ran twice, groups that are staged anew."""
    for entry in storage.list_dir(staging):
        if entry.name != JOURNAL:
            storage.unlink(f"{staging}/{entry.name}")


def read_journal(storage: Storage, staging: str) -> Journal | None:
    """None if there is none, or one that no such run wrote: a round can always be given up."""
    path = f"{staging}/{JOURNAL}"
    if not storage.exists(path):
        return None
    try:
        return _journal(json.loads(storage.read_bytes(path)))
    except (ValueError, RecursionError):
        return None


def _journal(value: object) -> Journal:
    """Raises ValueError for whatever `write_journal` would not have written."""
    found = _object(value, {"version", *(field.name for field in fields(Journal))})
    if found["version"] != VERSION:
        raise _malformed("version", found["version"])
    groups = tuple(_group(group) for group in _list(found["groups"]))
    bases = [base for group in groups for base in group.source_bases]
    if not groups or bases != sorted(set(bases)):
        raise _malformed("base offsets", bases)
    journal = Journal(
        run_id=_text(found["run_id"]),
        now=_number(found["now"]),
        end_offset=_number(found["end_offset"], least=bases[-1] + 1),
        checkpoint_before=_or_none(found["checkpoint_before"]),
        groups=groups,
        rest=None if found["rest"] is None else _rest(found["rest"]),
    )
    waiting = journal.waiting
    if waiting != groups[len(groups) - len(waiting) :] or (journal.rest is None) is bool(waiting):
        raise _malformed("groups without an output", len(waiting))
    return journal


def _rest(value: object) -> Rest:
    found = _object(value, {field.name for field in fields(Rest)})
    return Rest(
        first_dirty_offset=_number(found["first_dirty_offset"]),
        legacy_delete_horizon_ms=_number(found["legacy_delete_horizon_ms"], least=-_MAX_LONG),
        last_records=tuple(_last_record(record) for record in _list(found["last_records"])),
    )


def _last_record(value: object) -> tuple[int, int | None, int]:
    producer, offset, epoch = _list(value, length=3)
    return _number(producer), _or_none(offset), _number(epoch, least=-1)


def _group(value: object) -> JournalGroup:
    found = _object(value, {field.name for field in fields(JournalGroup)})
    sources = tuple(_segment(source) for source in _list(found["sources"]))
    if not sources:
        raise _malformed("sources", value)
    return JournalGroup(
        sources=sources,
        open_producers=tuple(_number(producer) for producer in _list(found["open_producers"])),
        lingering=tuple(_number(producer) for producer in _list(found["lingering"])),
        output=None if found["output"] is None else _read_output(found["output"], sources[0].base_offset),
    )


def _read_output(value: object, base_offset: int) -> Output:
    found = _object(value, {field.name for field in fields(Output)})
    files = _object(found["files"], _NEEDED, SEGMENT_SUFFIXES)
    return Output(
        files={suffix: _file(file, segment_file(base_offset, suffix)) for suffix, file in files.items()},
        log_mtime_ms=_number(found["log_mtime_ms"]),
    )


def _segment(value: object) -> Segment:
    found = _object(value, {field.name for field in fields(Segment)} - {_STAMP})
    numbers = {
        name: None if number is None and name.endswith("index_bytes") else _number(number, least=-_MAX_LONG)
        for name, number in found.items()
    }
    segment = Segment(**numbers)  # type: ignore[arg-type]  # only the sizes of indexes may be None
    if segment.base_offset < 0:
        raise _malformed("a base offset", segment.base_offset)
    return segment


def _file(value: object, name: str) -> StagedFile:
    """A name in a journal becomes a path: it must be that of an attempt at this very file."""
    found = _object(value, {"name", "size"})
    attempt = _text(found["name"]).removeprefix(f"{name}.")
    if not (attempt.isascii() and attempt.isalnum()) or f"{name}.{attempt}" != found["name"]:
        raise _malformed("a staged file", found["name"])
    return StagedFile(f"{name}.{attempt}", _number(found["size"]))


def _object(value: object, needed: set[str], allowed: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(value, dict) or not needed <= value.keys() <= {*needed, *allowed}:
        raise _malformed("an object", value)
    return value


def _list(value: object, *, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in {None, len(value)}:
        raise _malformed("a list", value)
    return value


def _number(value: object, *, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MAX_LONG:
        raise _malformed("a number", value)
    return value


def _or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _malformed("text", value)
    return value


def _malformed(what: str, found: object) -> ValueError:
    return ValueError(f"{what}: {found!r}")
