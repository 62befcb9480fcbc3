"""What was prepared of one partition: all that a commit in another process must check and needs.

It lies as `prepared.json` in the staging directory, written last. A staging directory without this
file is removed by the next run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Annotated

from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.result import RecordsRemoved
from winnow.clock import LATEST_MS, UNKNOWN_BOOT, boot_id, ms_since_boot, now_ms
from winnow.logdir.commit.journal import are_staged
from winnow.logdir.names import PREPARED, STAGING_PREFIX
from winnow.logdir.stored import FromMinusOne, Natural, plain, stored
from winnow.policy.config import TopicConfig
from winnow.state import Segment, Sources
from winnow.storage.contract import Storage
from winnow.storage.own_json import MOST_BYTES, read_json
from winnow.version import VERSION

FORMAT = 1
RULE = "S8.12"
"""The rule of preparations."""
_SET_BACK_MS = 1_000
"""By how much a wall clock may fall behind, as when it is adjusted in small steps."""
_HEADER = re.compile(r"[0-9a-f]{2,42}")
_COMPARED = {f.name: None for f in fields(TopicConfig) if f.name not in {"sources", "rules"}}
Crc = Annotated[int, 0, 2**32 - 1]


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identifies the bytes of a file on one file system: a program can set no ctime. Times in ns.
    The number of the device is left out: it may change when the machine starts.
    """

    inode: Natural
    mtime: int
    ctime: int

    @classmethod
    def of(cls, stamp: Sequence[int]) -> Stamp:
        """`stamp`: see `Entry.stamp`."""
        _, inode, mtime, ctime = stamp
        return cls(inode, mtime, ctime)


@dataclass(frozen=True, slots=True)
class Instant:
    """When stamps were taken, by the wall clock and by the clock of this boot of the machine."""

    wall_ms: Annotated[int, 0, LATEST_MS]
    boot_id: str
    boot_ms: Natural

    @classmethod
    def now(cls) -> Instant:
        return cls(now_ms(), boot_id(), ms_since_boot())

    def was_set_back(self, now: Instant) -> bool:
        """Return whether the wall clock was set back since. A file that was changed then may have
        the same stamp as before.
        """
        passed = now.wall_ms - self.wall_ms
        known = now.boot_id == self.boot_id != UNKNOWN_BOOT
        return passed < (now.boot_ms - self.boot_ms - _SET_BACK_MS if known else 0)


@dataclass(frozen=True, slots=True)
class StagedAs:
    """A staged file: its name in the staging directory, and what identifies its bytes."""

    name: str
    size: Natural
    crc32c: Crc
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedGroup(Sources):
    """A group of segments, and the segment that replaces it."""

    stamps: tuple[Stamp, ...]
    """Of the logs of the sources, in their order."""
    checksums: tuple[Crc, ...]
    """Of the batches of each source: `winnow.scan.cut.batches_checksum`."""
    segment: Segment
    """The output, as it will be listed."""
    files: Mapping[str, StagedAs]
    """The staged files by suffix. Empty: the only source stays as it is."""
    checksum: Crc
    """Of the batches of the output."""
    unread: bool
    """See `CleanedGroup.unread`."""
    records_before: Natural
    records_after: Natural
    removed: RecordsRemoved
    tombstones: tuple[Natural, ...]
    duration_ms: Natural


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last batch below the log end. A truncation below it can't go unnoticed."""

    base_offset: Natural
    """Of its segment."""
    position: Natural
    header: str
    """The first bytes of the batch in hexadecimal: offset, length, epoch, magic and CRC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose partition it is, by `meta.properties` and `partition.metadata`."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    topic_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRound:
    """The cleaning round, as it was decided."""

    rule: str
    reason: str
    dirty_ratio: Annotated[float, 0.0, 1.0] | None
    first_dirty_offset: Natural
    end_offset: Natural
    """All groups lie below this offset, which becomes the cleaner checkpoint."""
    cleanable_bytes: Natural
    compacts_less: bool
    """See `PlannedPartition.compacts_less`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPartition:
    run_id: str
    now: Annotated[int, 0, LATEST_MS]
    """The clock of every decision, ms."""
    expires_ms: Annotated[int, 0, LATEST_MS]
    """When it may not be committed any more."""
    taken: Instant
    """When the stamps were taken."""
    owner: Owner
    asked: SettingsAsked
    settings: Mapping[str, str]
    """The effective settings of the topic."""
    kafka_version: str
    only: str | None
    beside: tuple[Segment, ...]
    """The segments of the partition that are in no group."""
    log_start_offset: Natural
    log_end_offset: Natural
    cleaner_checkpoint: FromMinusOne | None
    log_start_checkpoint: FromMinusOne | None
    leader_epochs: tuple[tuple[int, Natural], ...]
    anchor: Anchor | None
    """None: the log is empty."""
    round: PlannedRound | None
    """None: only retention is due."""
    groups: tuple[PreparedGroup, ...]
    """Ascending. Empty if there is no round."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments of the partition, ascending."""
        sources = (source for group in self.groups for source in group.sources)
        return tuple(sorted((*sources, *self.beside), key=attrgetter("base_offset")))

    @property
    def staged_bytes(self) -> int:
        """Bytes of the staged files."""
        return sum(file.size for group in self.groups for file in group.files.values())

    @property
    def end_offset(self) -> int | None:
        return None if self.round is None else self.round.end_offset


def settings_in_words(config: TopicConfig) -> dict[str, str]:
    """Return the settings of a topic as texts, in the form in which `prepared.json` stores them."""
    return {name: repr(getattr(config, name)) for name in _COMPARED}


def write_prepared(storage: Storage, staging: str, prepared: PreparedPartition) -> None:
    """Write it to the staging directory. When this returns, it and the names of all staged files
    are durable.
    """
    path, temporary = f"{staging}/{PREPARED}", f"{staging}/{PREPARED}.tmp"
    content = {"format": FORMAT, "winnow_version": VERSION, **plain(prepared)}
    storage.create(temporary, json.dumps(content).encode())
    storage.fsync_dir(staging)
    storage.rename(temporary, path)
    storage.fsync_dir(staging)
    storage.fsync_dir(staging.rpartition("/")[0])


def read_prepared(storage: Storage, staging: str, *, most: int) -> PreparedPartition:
    """Raises CorruptLogError for anything that `write_prepared` would not have written, for more
    than `most` bytes, and for what another version of Winnow wrote.
    """
    hint = "`recover` removes it. Nothing else was changed."
    path = f"{staging}/{PREPARED}"
    value = read_json(storage, path, hint=hint, most_bytes=min(most, MOST_BYTES))
    whole = value.fields({"format", "winnow_version"}, None)
    whole["format"].version(FORMAT)
    if whole["winnow_version"].text() != VERSION:
        raise whole["winnow_version"].refused(f"a preparation of Winnow {VERSION}")
    prepared = stored(value, PreparedPartition, beside={"format", "winnow_version"})
    if staging.rpartition("/")[2] != f"{STAGING_PREFIX}{prepared.run_id}" or not _fits(prepared):
        raise value.refused("groups that ascend below the end of the round", "others")
    return prepared


def _fits(prepared: PreparedPartition) -> bool:
    """Return whether the groups are the segments below the end of the round."""
    bases = [base for group in prepared.groups for base in group.source_bases]
    ends = [prepared.round.end_offset] if prepared.round is not None and prepared.groups else []
    beside = {segment.base_offset for segment in prepared.beside}
    return (
        bool(prepared.groups) == (prepared.round is not None)
        and [*bases, *ends] == sorted({*bases, *ends})
        and beside.isdisjoint(bases)
        and len(beside) == len(prepared.beside)
        and bool(beside or bases)
        and prepared.settings.keys() == _COMPARED.keys()
        and (prepared.anchor is None or _HEADER.fullmatch(prepared.anchor.header) is not None)
        and prepared.only in {None, "retention", "compaction"}
        and all(map(_is_sound, prepared.groups))
    )


def _is_sound(group: PreparedGroup) -> bool:
    sources = len(group.sources)
    names = {suffix: file.name for suffix, file in group.files.items()}
    return (
        sources > 0
        and sources == len(group.stamps) == len(group.checksums)
        and group.segment.base_offset == group.base_offset
        and (are_staged(names, group.base_offset) if names else sources == 1)
    )
