"""The journal of a cleaning round: what the driver is about to do to one partition, on disk before the first rename.

It lies in the staging directory, where Kafka's loader does not look. With it the next run can finish what a crash
interrupted (`winnow.logdir.roll_forward`); without it, or with one that can't be understood, the round was never begun
or is given up, and what the crash left is for `winnow.logdir.recovery` alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
class JournalGroup:
    """One output segment: its base offset is that of the first source."""

    sources: tuple[Segment, ...]
    """As they were when they were read."""
    files: Mapping[str, StagedFile]
    """By suffix. They keep their sizes when they are renamed."""
    log_mtime_ms: int
    """Of the staged log."""

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset

    @property
    def source_bases(self) -> tuple[int, ...]:
        return tuple(source.base_offset for source in self.sources)

    @property
    def log_bytes_before(self) -> int:
        return sum(source.log_bytes for source in self.sources)

    @property
    def log_bytes_after(self) -> int:
        return self.files[LOG].size

    def staged(self, staging: str) -> StagedGroup:
        paths = {suffix: f"{staging}/{file.name}" for suffix, file in self.files.items()}
        return StagedGroup(base_offset=self.base_offset, sources=self.sources, paths=paths)

    def named(self, suffix: str, marker: str = "") -> str:
        """The name of an output file in the partition directory; `marker`: SWAP, CLEANED or nothing."""
        return segment_file(self.base_offset, suffix) + marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    run_id: str
    now: int
    """The clock of the round, ms."""
    end_offset: int
    """The cleaner checkpoint when all groups are in place."""
    checkpoint_before: int | None
    groups: tuple[JournalGroup, ...]
    """Ascending."""


def new_journal(
    storage: Storage,
    *,
    run_id: str,
    now: int,
    end_offset: int,
    checkpoint_before: int | None,
    groups: Sequence[StagedGroup],
) -> Journal:
    """The journal of a round whose groups are all staged, ascending; looks at the sizes of the staged files."""
    return Journal(
        run_id=run_id,
        now=now,
        end_offset=end_offset,
        checkpoint_before=checkpoint_before,
        groups=tuple(_group(storage, group) for group in groups),
    )


def _group(storage: Storage, group: StagedGroup) -> JournalGroup:
    entries: dict[str, Entry] = {suffix: storage.entry(path) for suffix, path in group.paths.items()}
    return JournalGroup(
        sources=group.sources,
        files={suffix: StagedFile(entry.name, entry.size) for suffix, entry in entries.items()},
        log_mtime_ms=entries[LOG].mtime_ms,
    )


def write_journal(storage: Storage, staging: str, journal: Journal) -> None:
    """Puts it into the staging directory, in the place of an earlier one. It lasts when this returns, as do the names
    of all that is staged.
    """
    path, temporary = f"{staging}/{JOURNAL}", f"{staging}/{JOURNAL}.tmp"
    if storage.exists(temporary):
        storage.unlink(temporary)
    told = {"version": VERSION, **asdict(journal, dict_factory=_without_stamps)}
    storage.create(temporary, json.dumps(told).encode())
    storage.fsync_dir(staging)
    storage.rename(temporary, path)
    storage.fsync_dir(staging)
    storage.fsync_dir(staging.rpartition("/")[0])


def _without_stamps(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """A copy of a log directory, or a link that is kept of a file, has other stamps and the same bytes."""
    return {name: value for name, value in items if name != _STAMP}


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
    before = found["checkpoint_before"]
    groups = tuple(_journal_group(group) for group in _list(found["groups"]))
    bases = [base for group in groups for base in group.source_bases]
    if not groups or bases != sorted(set(bases)):
        raise _malformed("base offsets", bases)
    return Journal(
        run_id=_text(found["run_id"]),
        now=_number(found["now"]),
        end_offset=_number(found["end_offset"], least=bases[-1] + 1),
        checkpoint_before=None if before is None else _number(before),
        groups=groups,
    )


def _journal_group(value: object) -> JournalGroup:
    found = _object(value, {field.name for field in fields(JournalGroup)})
    sources = tuple(_segment(source) for source in _list(found["sources"]))
    if not sources:
        raise _malformed("sources", value)
    files = _object(found["files"], _NEEDED, SEGMENT_SUFFIXES)
    return JournalGroup(
        sources=sources,
        files={suffix: _file(file, segment_file(sources[0].base_offset, suffix)) for suffix, file in files.items()},
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


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _malformed("a list", value)
    return value


def _number(value: object, *, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MAX_LONG:
        raise _malformed("a number", value)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _malformed("text", value)
    return value


def _malformed(what: str, found: object) -> ValueError:
    return ValueError(f"{what}: {found!r}")
