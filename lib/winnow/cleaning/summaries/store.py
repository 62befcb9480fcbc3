"""Where summaries are kept: a private directory beside the ledger, and in it one directory for each
partition, with a list of its segments and a file of keys for each.

A file is written by the task that wrote or read the segment. The driver writes the list once the
segments are in place, so a file counts only from then on. Whatever can't be read or does not fit is
ignored; whatever can't be written is left out. Only the user who runs Winnow can read any of it:
with the secret in it, somebody could try whether a segment may have a key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from winnow.cleaning.request import Request
from winnow.cleaning.summaries.truncated import Keys, packed, size_of
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.logdir.survey import LogDir
from winnow.scan.values import SegmentSummary
from winnow.state import PartitionState
from winnow.storage.output_file import write_output
from winnow.storage.own_json import MAX_LONG, parse_json
from winnow.storage.places import Places
from winnow.storage.private import (
    check_private,
    has_room,
    make_private,
    read_private,
    write_unsynced,
)
from winnow.storage.urls import is_remote
from winnow.storage.way import why_not_ours
from winnow.wire.internal_topics import INTERNAL_TOPICS

_log = logging.getLogger(__name__)

_LIST = "segments.json"
_SECRET = "secret"  # noqa: S105 - a name
_FORMAT = 3
_NAME = 24
"""Digits of a directory's name."""
_OURS = re.compile(r"[0-9a-f]{24}|.+-[0-9]+|[0-9]+-[^-]+\.keys|\.winnow-.+\.tmp")
_DIGEST, _TOKEN = 16, 8
"""Bytes in the name of a file of keys: those of a digest of its content, and random ones."""
_MOST_LIST_BYTES = 2**26
MOST_KEYS = 2**24
"""Keys of a segment. More are not summed up: they would take too much memory at once."""
Stamps: TypeAlias = list[list[int]]


@dataclass(frozen=True, slots=True)
class UniqueKeys:
    """Segments below offset `end`. Each key has one record in all of them together."""

    end: int
    stamps: Mapping[int, Stamps | None]
    """By base offset, what `stamps_of` returned."""

    @classmethod
    def of(cls, directory: str, end: int, bases: Iterable[int]) -> Self:
        return cls(end, {base: stamps_of(directory, base) for base in bases})


@dataclass(frozen=True, slots=True)
class Summaries:
    """The list of a partition, as it was written; empty if it is missing or damaged."""

    segments: Mapping[int, tuple[SegmentSummary, Stamps]] = field(default_factory=dict)
    """By base offset, with what `stamps_of` returned then."""
    unique: UniqueKeys | None = None
    """Set if each key was known to have one record in the clean part."""

    def fitting(self, state: PartitionState) -> dict[int, SegmentSummary]:
        """Return, by base offset, the summaries that fit the segments as they are now: their files
        have the same inode, size, mtime and ctime. Nobody can set the ctime.
        """
        return {
            base: self.segments[base][0]
            for one in state.segments
            if (base := one.base_offset) in self.segments
            and one.txnindex_bytes is None
            and one.rebuilt is None
            and stamps_of(state.directory, base) == self.segments[base][1]
        }

    def has_unique_keys(self, state: PartitionState, first_dirty_offset: int) -> bool:
        """Return whether each key is known to have one record in the clean part: because there is
        none, or because runs of Winnow alone have cleaned all of it, and its files are the same.
        """
        clean = [s.base_offset for s in state.segments if s.base_offset < first_dirty_offset]
        if not clean or self.unique is None or self.unique.end < first_dirty_offset:
            return not clean
        now = UniqueKeys.of(state.directory, 0, clean).stamps
        known = self.unique.stamps
        return all(stamps is not None and stamps == known.get(base) for base, stamps in now.items())


def opened(
    directory: str, log_dirs: Mapping[str, Iterable[str]]
) -> tuple[str, tuple[int, int]] | None:
    """Return where summaries are, and the secret of their hashes; None if `directory` can't be
    used. Another secret means another place: the keys of the one before would all seem to be
    missing.

    `log_dirs`: each log directory with the names of its partitions. What is left of others there
    is removed.
    """
    try:
        if (reason := why_not_ours(directory)) is not None:
            raise PermissionError(reason)
        make_private(directory)
        secret = _secret(f"{directory}/{_SECRET}")
        place = f"{directory}/{hashlib.sha256(secret).hexdigest()[:_NAME]}"
        make_private(place)
        _remove_others(directory, {_SECRET, os.path.basename(place)})
        for log_dir, partitions in log_dirs.items():
            _remove_others(_of_log_dir(place, log_dir), frozenset(partitions))
    except (OSError, ValueError) as error:
        _log.info("what is known of segments can't be used: %s", error)
        return None
    return place, (int.from_bytes(secret[:8], "big"), int.from_bytes(secret[8:], "big"))


def with_summaries(request: Request, dirs: Sequence[LogDir]) -> Request:
    """Return the request with the secret of the summaries; without summaries if tasks run
    elsewhere, or if they can't be used.
    """
    where, found = request.key_summaries, None
    if where is not None and request.spool is not None:
        found = opened(where, {d.path: map(str, d.partitions) for d in dirs})
    if found is None:
        return replace(request, key_summaries=None)
    place, secret = found
    return replace(request, key_summaries=place, secret=secret)


def place_of(directory: str, partition: str) -> str:
    """Return the directory for the summaries of the partition in directory `partition`."""
    log_dir, _, name = partition.rpartition("/")
    return f"{_of_log_dir(directory, log_dir)}/{name}"


def place_for(state: PartitionState, request: Request) -> str | None:
    """Return the directory for the summaries of a partition, if there are any.

    Kafka's own topics are always read whole: a run counts the holders of their keys. So are remote
    segments: their files have no inode and no ctime.
    """
    internal = state.topic_partition.topic in INTERNAL_TOPICS
    if request.key_summaries is None or internal or is_remote(state.directory):
        return None
    return place_of(request.key_summaries, state.directory)


def write_keys(place: str, base_offset: int, keys: Keys) -> str | None:
    """Write a file of keys, which ascend. Return its name; None if there is no room for it."""
    try:
        make_private(os.path.dirname(place))
        make_private(place)
        if not has_room(place, size_of(len(keys))):
            return None
        data = packed(keys).tobytes()
        # A task that runs twice must not write to one file twice.
        name = f"{_digest_of(base_offset, data)}{secrets.token_hex(_TOKEN)}.keys"
        write_unsynced(f"{place}/{name}", data)
    except OSError as error:
        _log.info("the keys of segment %d are not written: %s", base_offset, error)
        return None
    return name


def read_keys(place: str, summary: SegmentSummary) -> Keys | None:
    """Return the set of keys of a segment; None if its file is missing, or its bytes are not those
    that were written.
    """
    with suppress(OSError):
        data = read_private(f"{place}/{summary.file}", size_of(summary.keys))
        if data and summary.file.startswith(_digest_of(summary.base_offset, data)):
            return np.frombuffer(data, "<u8")
    return None


def _digest_of(base_offset: int, data: bytes) -> str:
    """Return how the name of a file of keys begins. What lies there but has other bytes, such as
    the keys of another segment, is not trusted.
    """
    return f"{base_offset}-{hashlib.blake2b(data, digest_size=_DIGEST).hexdigest()}"


def record(
    place: str, directory: str, found: Sequence[SegmentSummary], *, unique: UniqueKeys | None = None
) -> None:
    """Make `found` the list of a partition. Call this once its segments are in place.

    `directory`: of the partition itself. Files of other segments are removed. `unique`: set if each
    key is known to have one record in the clean part.
    """
    try:
        if not found and not os.path.isdir(place):
            return
        listed = [
            asdict(one) | {"stamps": stamps}
            for one in found
            if (stamps := stamps_of(directory, one.base_offset)) is not None
        ]
        body = json.dumps(
            {
                "format": _FORMAT,
                "segments": listed,
                "unique": None if unique is None else [unique.end, [*unique.stamps.items()]],
            }
        )
        check_private(place)
        path = f"{place}/{_LIST}"
        if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
            os.unlink(path)  # the directory is private: what is no list is of no use
        write_output(path, f"{body}\n{zlib.crc32(body.encode())}\n".encode())
        _remove_others(place, {_LIST, *(one.file for one in found)})
    except OSError as error:
        _log.info("what is known of the segments of %s is not kept: %s", directory, error)


def read_list(place: str) -> Summaries:
    try:
        check_private(place)
        body, _, checksum = (
            read_private(f"{place}/{_LIST}", _MOST_LIST_BYTES).decode().partition("\n")
        )
        if int(checksum) != zlib.crc32(body.encode()):
            return Summaries()
        told = parse_json(body.encode(), place, most_bytes=_MOST_LIST_BYTES).raw
        if not isinstance(told, dict) or told["format"] != _FORMAT:
            return Summaries()
        return Summaries(
            {one.base_offset: (one, stamps) for one, stamps in map(_segment, told["segments"])},
            None if told["unique"] is None else _unique(*told["unique"]),
        )
    except FAILS_ONE_PARTITION:  # whatever is in the file
        return Summaries()


def _segment(told: dict[str, Any]) -> tuple[SegmentSummary, Stamps]:
    """Raises ValueError for values that `record` does not write."""
    stamps = _checked(told.pop("stamps"))
    found = SegmentSummary(**told)
    numbers = [value for name, value in told.items() if name != "file"]
    if not all(map(_is_natural, numbers)) or not 0 < found.keys <= MOST_KEYS:
        raise ValueError(f"{found} has other values than a summary")
    digits = 2 * (_DIGEST + _TOKEN)
    if re.fullmatch(rf"{found.base_offset}-[0-9a-f]{{{digits}}}\.keys", found.file) is None:
        raise ValueError(f"{found.file} is no file of keys")
    return found, stamps


def _unique(end: int, stamps: Sequence[tuple[int, Stamps | None]]) -> UniqueKeys:
    known = {base: None if some is None else _checked(some) for base, some in stamps}
    if not all(map(_is_natural, [end, *known])):
        raise ValueError(f"{end} or a base offset is no offset")
    return UniqueKeys(end, known)


def _checked(stamps: Stamps) -> Stamps:
    """Return stamps as they are. ValueError for what `stamps_of` does not return."""
    if [len(one) for one in stamps] != [4, 4, 4] or {type(n) for one in stamps for n in one} != {
        int
    }:
        raise ValueError("no stamps of three files")
    return stamps


def _is_natural(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_LONG


def stamps_of(directory: str, base_offset: int) -> Stamps | None:
    """Return size, inode, mtime and ctime of the files of a segment; None if one is missing. The
    number of the device may change when the machine starts.
    """
    try:
        entries = [
            Places().entry(f"{directory}/{segment_file(base_offset, suffix)}")
            for suffix in (LOG, INDEX, TIMEINDEX)
        ]
    except OSError:
        return None
    return [[entry.size, *entry.stamp[1:]] for entry in entries]


def _of_log_dir(directory: str, log_dir: str) -> str:
    """Hosts may share a ledger, so the name of this one counts."""
    name = hashlib.sha256(f"{os.uname().nodename}\0{log_dir}".encode(errors="surrogateescape"))
    return f"{directory}/{name.hexdigest()[:_NAME]}"


def _secret(path: str) -> bytes:
    """Return the secret in a file; create a missing one. ValueError for another size."""
    if not os.path.lexists(path):
        write_output(path, secrets.token_bytes(16))
    data = read_private(path, 16)
    if len(data) != 16:
        raise ValueError(f"{path} has {len(data)} bytes, not 16; remove its directory")
    return data


def _remove_others(directory: str, names: Iterable[str]) -> None:
    """Remove all summaries but these from a directory, if there is one. Foreign files stay. Raises
    OSError if somebody else could have put the directory there, or a link.
    """
    wanted = frozenset(names)
    if not os.path.lexists(directory):
        return
    check_private(directory)
    for one in Path(directory).iterdir():
        if one.name in wanted or not _OURS.fullmatch(one.name):
            continue
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        else:
            one.unlink(missing_ok=True)
