"""Whether a preparation still holds: what must be as it was when it was made (S8.12).

Everything that may have changed the bytes below the end of the round, or what they mean, shows in
one of these checks. A segment whose stamp has changed is read, and its batches are compared. What
is not checked may change: producers, transactions and offsets above the end of the round, as while
a broker's own cleaner works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from winnow.cleaning.prepared.sources import Resolved
from winnow.cleaning.prepared.value import (
    Anchor,
    Instant,
    Owner,
    PreparedGroup,
    PreparedPartition,
    Stamp,
)
from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import read_leader_epochs
from winnow.logdir.commit.journal import file_crc32c
from winnow.logdir.files import difference, log_bases
from winnow.logdir.meta import read_topic_id
from winnow.logdir.names import LOG, segment_file
from winnow.logdir.survey import LogDir
from winnow.policy.sources import Unknown
from winnow.state import Segment, TopicPartition
from winnow.storage.contract import Entry, Storage
from winnow.storage.guarded import kind_of, status_of
from winnow.wire.batch import FRAME_SIZE
from winnow.words import counted, duration, instant

HEADER_BYTES = 21
"""Offset, length, epoch, magic and CRC of a batch of any format."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Why a preparation no longer holds."""

    check: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.check}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Now:
    """What a preparation is compared with."""

    storage: Storage
    log_dir: LogDir
    topic_partition: TopicPartition
    resolved: Resolved
    at: Instant
    kafka_version: str
    check_stopped: Callable[[], None]
    """Raises if the run is to stop."""

    @property
    def directory(self) -> str:
        return f"{self.log_dir.path}/{self.topic_partition}"


def why_dropped(
    prepared: PreparedPartition,
    staging: str,
    now: Now,
    entries: Sequence[Entry],
    inside: Mapping[str, Entry],
) -> Dropped | None:
    """Return the first check that fails, cheap ones first. None: the preparation holds. `entries`:
    what has just been found in the partition directory; `inside`: in the staging directory.

    Raises OSError and CorruptLogError for files that can't be read.
    """
    files = {entry.name: entry for entry in entries if entry.is_file}
    return next(_failed(prepared, staging, now, files, inside), None)


def _failed(
    prepared: PreparedPartition,
    staging: str,
    now: Now,
    files: Mapping[str, Entry],
    inside: Mapping[str, Entry],
) -> Iterator[Dropped]:
    yield from _of_the_run(prepared, now)
    yield from _of_settings(prepared, now)
    yield from _of_checkpoints(prepared, now)
    yield from _of_names(prepared, files)
    set_back = prepared.taken.was_set_back(now.at)
    for group in prepared.groups:
        yield from _of_sources(group, files, now, read=set_back)
    for group in prepared.groups:
        yield from _of_outputs(group, staging, inside, now, read=set_back)
    yield from _of_anchor(prepared.anchor, now)


def _of_the_run(prepared: PreparedPartition, now: Now) -> Iterator[Dropped]:
    found = owner_of(now.storage, now.log_dir, now.directory)
    if found != prepared.owner:
        yield Dropped("cluster, node, directory and topic id", str(prepared.owner), str(found))
    if now.at.wall_ms > prepared.expires_ms:
        yield Dropped(
            "age",
            f"a commit by {instant(prepared.expires_ms)}",
            f"{instant(now.at.wall_ms)}, {duration(now.at.wall_ms - prepared.now)} later",
        )
    if prepared.kafka_version != now.kafka_version:
        yield Dropped("version of Kafka", prepared.kafka_version, now.kafka_version)


def owner_of(storage: Storage, log_dir: LogDir, directory: str) -> Owner:
    meta = log_dir.meta
    return Owner(
        cluster_id=meta.cluster_id,
        node_id=meta.node_id,
        directory_id=meta.directory_id,
        topic_id=read_topic_id(storage, directory),
    )


def _of_settings(prepared: PreparedPartition, now: Now) -> Iterator[Dropped]:
    config, found = now.resolved.config, now.resolved.words
    if isinstance(config, Unknown):
        yield Dropped("settings", "the same settings", config.reason)
        return
    if found == prepared.settings:
        return
    for name, before in prepared.settings.items():
        if found.get(name) != before:
            yield Dropped(f"setting {name.replace('_', '.')}", before, str(found.get(name)))
    for name in found.keys() - prepared.settings.keys():
        yield Dropped(f"setting {name.replace('_', '.')}", "no such setting", found[name])


def _of_checkpoints(prepared: PreparedPartition, now: Now) -> Iterator[Dropped]:
    checkpoints, at = now.log_dir.checkpoints, now.topic_partition
    for name, before, found in (
        ("cleaner checkpoint", prepared.cleaner_checkpoint, checkpoints.cleaner.get(at)),
        ("log start offset", prepared.log_start_checkpoint, checkpoints.log_start.get(at)),
    ):
        if before != found:
            yield Dropped(name, _or_none(before), _or_none(found))
    end = prepared.end_offset
    recovery_point = checkpoints.recovery_point.get(at, 0)
    if end is not None and recovery_point < end:
        yield Dropped("recovery point", f"at least {end}", str(recovery_point))
    found_epochs = [
        entry
        for entry in read_leader_epochs(now.storage, now.directory)
        if entry[1] < prepared.log_end_offset
    ]
    before_epochs = [e for e in prepared.leader_epochs if e[1] < prepared.log_end_offset]
    if found_epochs != before_epochs:
        yield Dropped(
            f"leader epochs below offset {prepared.log_end_offset}",
            _epochs(before_epochs),
            _epochs(found_epochs),
        )


def _or_none(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def _epochs(entries: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{epoch} from {offset}" for epoch, offset in entries[-3:]) or "none"


def _of_names(prepared: PreparedPartition, files: Mapping[str, Entry]) -> Iterator[Dropped]:
    bases, end = log_bases(files), prepared.end_offset
    if end is None or not bases:
        wanted = [segment.base_offset for segment in prepared.segments[:1]]
        if bases[:1] != wanted:
            yield Dropped("first segment", _list(wanted), _list(bases[:1]))
        return
    sources = [base for group in prepared.groups for base in group.source_bases]
    found = [base for base in bases if sources[0] <= base < end]
    if found != sources:
        missing, new = sorted({*sources} - {*found}), sorted({*found} - {*sources})
        what = f"without {_list(missing)}" if missing else f"also {_list(new)}"
        many = f"{counted(len(sources), 'segment')} from {sources[0]} to {end}"
        yield Dropped("segments", many, f"{len(found)}, {what}")
    if bases[-1] < end:
        yield Dropped("active segment", f"at {end} or above", f"at {bases[-1]}")


def _list(bases: Sequence[int]) -> str:
    return ", ".join(map(str, bases[:3])) + (", ..." if len(bases) > 3 else "") or "none"


def _of_sources(
    group: PreparedGroup, files: Mapping[str, Entry], now: Now, *, read: bool
) -> Iterator[Dropped]:
    each = zip(group.sources, group.stamps, group.checksums, strict=True)
    for segment, stamp, checksum in each:
        name = segment_file(segment.base_offset, LOG)
        if differs := difference(files, segment):
            yield Dropped(*differs)
            return
        if not read and Stamp.of(files[name].stamp) == stamp:
            continue
        now.check_stopped()
        if now.log_dir.meta.cluster_id is None or read_topic_id(now.storage, now.directory) is None:
            yield Dropped(name, "the same file: the topic has no id", "another file")
            return
        found = _checksum_of(now, segment)
        if found != checksum:
            yield Dropped(name, "the same batches", "others of the same size and age")


def _checksum_of(now: Now, segment: Segment) -> int | None:
    """Return the checksum of all batches of a segment. None: it has damaged batches."""
    from winnow.scan.cut import checksum_of_log  # noqa: PLC0415 - it loads the codecs

    path, base = f"{now.directory}/{segment_file(segment.base_offset, LOG)}", segment.base_offset
    try:
        return checksum_of_log(now.storage, path, size=segment.log_bytes, least_offset=base)
    except CorruptLogError:
        return None


def _of_outputs(
    group: PreparedGroup, staging: str, inside: Mapping[str, Entry], now: Now, *, read: bool
) -> Iterator[Dropped]:
    for file in group.files.values():
        path, entry = f"{staging}/{file.name}", inside.get(file.name)
        if entry is None or not entry.is_file:
            yield Dropped(f"prepared {file.name}", "a regular file", kind_of(status_of(path)))
            return
        if entry.links != 1:  # what is written there later would show in the log
            yield Dropped(f"prepared {file.name}", "one name", f"{entry.links} names")
            return
        if entry.size != file.size:
            yield Dropped(f"prepared {file.name}", f"{file.size} bytes", f"{entry.size} bytes")
            return
        if read or Stamp.of(entry.stamp) != file.stamp:
            now.check_stopped()
            found = file_crc32c(now.storage, path)
            if found != file.crc32c:
                yield Dropped(f"prepared {file.name}", f"CRC-32C {file.crc32c}", str(found))


def _of_anchor(anchor: Anchor | None, now: Now) -> Iterator[Dropped]:
    if anchor is None:
        return
    name = segment_file(anchor.base_offset, LOG)
    path = f"{now.directory}/{name}"
    end = anchor.position + FRAME_SIZE + int(anchor.header[16:24] or "0", 16)
    try:
        found = now.storage.read_range(path, anchor.position, HEADER_BYTES).hex()
        size = now.storage.entry(path).size
    except FileNotFoundError:
        found, size = "no such file", 0
    if found == anchor.header and size < end:
        found = f"{size - anchor.position} bytes of it"
    if found != anchor.header:
        where = f"the last batch before the preparation, {name} at byte {anchor.position}"
        yield Dropped(where, anchor.header, found or "the end of the file")
