"""What an earlier run found in a partition directory in S3. What has not changed since is not
requested again (docs/decisions/0030).

A value of a file holds as long as the object has the same size, tag, time of upload and time in its
metadata. Whatever is missing, damaged or does not fit is read again.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from winnow.errors import CorruptLogError
from winnow.logdir.files import segment_of
from winnow.logdir.names import (
    LOG,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    base_offset_of,
    segment_file,
)
from winnow.state import Segment
from winnow.storage.contract import Entry, Remembered
from winnow.storage.own_json import Value, parse_json
from winnow.storage.private import (
    check_private,
    has_room,
    make_private,
    read_private,
    write_unsynced,
)
from winnow.wire.batch import NO_TIMESTAMP, out_of_reach

_log = logging.getLogger(__name__)

_FILE = "listing.json"
_FORMAT = 1
"""Raise it when what is read from the files of a segment, or checked of them, changes."""
_MOST_BYTES = 2**22
"""Of a file: what some 20,000 objects take."""
_LONGEST_WHOLE = 4096


@dataclass(frozen=True)
class EarlierListing:
    """A sound partition directory, as it was."""

    objects: tuple[Remembered, ...]
    timestamps: Mapping[int, tuple[int, int]]
    """By base offset, of all segments, ascending: the last timestamp of the time index, and the
    first batch's maxTimestamp (`Segment`).
    """
    leader_epochs: tuple[tuple[int, int], ...]
    log_end_offset: int

    @cached_property
    def files(self) -> dict[str, Entry]:
        return {one.entry.name: one.entry for one in self.objects}

    def is_same(self, name: str, files: Mapping[str, Entry]) -> bool:
        """Return whether a file is the one from before, or is missing as before."""
        return _as_shown(files.get(name)) == _as_shown(self.files.get(name))

    def same_segments(self, files: Mapping[str, Entry], bases: Sequence[int]) -> dict[int, Segment]:
        """Return the segments whose files are the same, and that the same segment follows.

        `files`: those listed now, by name. `bases`: the base offsets of all segments, ascending.
        """
        before, now = _followed(tuple(self.timestamps)), _followed(bases)
        return {
            base: segment_of(
                files, base, last_timeindex_timestamp=last, first_batch_max_timestamp=first
            )
            for base, (last, first) in self.timestamps.items()
            if base in now
            and before[base] == now[base]
            and all(self.is_same(segment_file(base, suffix), files) for suffix in SEGMENT_SUFFIXES)
        }


def read_earlier(place: str) -> EarlierListing | None:
    """Return what was written in the private directory `place`; None if it is missing, damaged or
    of another version.
    """
    try:
        check_private(place)
        body, _, checksum = read_private(f"{place}/{_FILE}", _MOST_BYTES).rpartition(b"\n")
        if int(checksum) != zlib.crc32(body):
            return None
        return _decoded(parse_json(body, place))
    except (OSError, ValueError, CorruptLogError):
        return None


def write_earlier(place: str, listing: EarlierListing) -> None:
    """Keep a listing in the private directory `place`. If that fails, later runs read again."""
    body = json.dumps(_encoded(listing)).encode()
    data = body + b"\n%d" % zlib.crc32(body)
    try:
        make_private(os.path.dirname(place))
        make_private(place)
        if len(data) <= _MOST_BYTES and has_room(place, len(data)):
            write_unsynced(f"{place}/{_FILE}", data)
    except OSError as error:
        _log.info("what was found in a partition is not kept: %s", error)


def identities(objects: Iterable[Remembered]) -> dict[str, tuple[object, ...]]:
    """Return what shows that an object is the same, by name."""
    return {
        one.entry.name: (one.entry.size, one.entry.mtime_ns, one.entry.stamp, one.written_ns)
        for one in objects
    }


def is_kept_whole(entry: Entry) -> bool:
    """Whether the bytes of this file are kept."""
    return entry.name == PARTITION_METADATA and entry.size <= _LONGEST_WHOLE


def same_files(one: Mapping[str, Entry], other: Mapping[str, Entry]) -> bool:
    """Return whether two listings show the same objects, by name."""
    shown = [{name: _as_shown(entry) for name, entry in files.items()} for files in (one, other)]
    return shown[0] == shown[1]


def _as_shown(entry: Entry | None) -> tuple[int, int, tuple[int, ...]] | None:
    return None if entry is None else (entry.size, entry.mtime_ns, entry.stamp)


def _followed(bases: Sequence[int]) -> dict[int, int | None]:
    return {**dict(pairwise(bases)), **dict.fromkeys(bases[-1:])}


def _encoded(listing: EarlierListing) -> dict[str, object]:
    return {
        "format": _FORMAT,
        "objects": [
            [
                *(one.entry.name, one.entry.size, one.entry.mtime_ns, one.entry.stamp[0]),
                one.written_ns,
                None if one.data is None else base64.b64encode(one.data).decode(),
            ]
            for one in listing.objects
        ],
        "segments": [[base, *values] for base, values in listing.timestamps.items()],
        "leader_epochs": listing.leader_epochs,
        "end": listing.log_end_offset,
    }


def _decoded(found: Value) -> EarlierListing:
    """Raises CorruptLogError for anything that `_encoded` would not have returned."""
    fields = found.fields(("format", "objects", "segments", "leader_epochs", "end"))
    fields["format"].version(_FORMAT)
    segments = [row.items(length=3) for row in fields["segments"].items()]
    timestamps = {
        base.integer(): (last.integer(least=NO_TIMESTAMP), first.integer(least=-(2**63)))
        for base, last, first in segments
    }
    objects = tuple(_object(row.items(length=6)) for row in fields["objects"].items())
    logs = {one.entry.name for one in objects if one.entry.name.endswith(LOG)}
    bases = [*timestamps]
    if not bases or bases != sorted(map(base_offset_of, logs)) or len(bases) < len(segments):
        raise fields["segments"].refused("the base offset of each log, ascending")
    epochs = [row.items(length=2) for row in fields["leader_epochs"].items()]
    return EarlierListing(
        objects,
        timestamps,
        tuple((epoch.integer(), start.integer()) for epoch, start in epochs),
        fields["end"].integer(least=bases[-1], most=out_of_reach(bases[-1])),
    )


def _object(row: Sequence[Value]) -> Remembered:
    name, size, mtime_ns, stamp, written_ns, data = row
    return Remembered(
        Entry(
            name=name.text(),
            is_file=True,
            is_dir=False,
            size=size.integer(),
            mtime_ns=mtime_ns.integer(),
            stamp=(stamp.integer(most=2**64 - 1),),
        ),
        written_ns.integer(),
        None if data.raw is None else data.base64(),
    )
