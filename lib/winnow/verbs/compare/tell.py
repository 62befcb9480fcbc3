"""Describe a suspect for a person: file and byte in both replicas, and what differs."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.errors import CorruptLogError
from winnow.logdir.lookup import Found, Segments
from winnow.storage.contract import Storage
from winnow.verbs.compare.judge import Suspect
from winnow.verbs.compare.replicas import Home
from winnow.verbs.compare.values import Difference, Kind, Place
from winnow.wire.plain import Record


@dataclass(frozen=True, slots=True)
class _Seen:
    place: Place
    record: Record | None
    """The record at the offset. None if there is none, or its batch is too large to show."""


def tell(storage: Storage, suspect: Suspect, has: Home, other: Home) -> Difference:
    """Look the record up again in both replicas and describe the difference.

    Keys and values are not shown: only which of them differ, and their lengths.
    """
    one, two = _see(storage, has, suspect.offset), _see(storage, other, suspect.offset)
    both = one.record is not None and two.record is not None
    kind = Kind.MISSING if suspect.missing and not both else Kind.CONTENT
    if one.record is not None and two.record is not None:
        message = _what_differs(one.record, two.record)
    elif kind is Kind.MISSING:
        what = "a tombstone" if one.record and one.record.value is None else "a record"
        message = (
            f"{has.replica.log_dir} has {what} at offset {suspect.offset} that "
            f"{other.replica.log_dir} lacks; the byte shown there is that of the next batch"
        )
    else:
        message = f"the records at offset {suspect.offset} differ"
    return Difference(
        kind=kind, offset=suspect.offset, message=message, places=(one.place, two.place)
    )


def _see(storage: Storage, home: Home, offset: int) -> _Seen:
    segments = Segments(storage, home.directory)
    try:
        found = segments.find_offset(offset)
    except CorruptLogError:  # too large to show
        found = None
    if found is None:
        last = len(segments.bases) - 1
        return _Seen(_place(home, segments.path(last), segments.log_bytes(last)), None)
    return _Seen(_place(home, found.path, found.position), _record_at(found, offset))


def _record_at(found: Found, offset: int) -> Record | None:
    return found.record if found.record is not None and found.record.offset == offset else None


def _place(home: Home, path: str, position: int) -> Place:
    return Place(home.replica.log_dir, path.removeprefix(f"{home.replica.log_dir}/"), position)


def _what_differs(one: Record, two: Record) -> str:
    differences = [
        f"{name} ({_size(mine)} and {_size(others)})"
        for name, mine, others in (("key", one.key, two.key), ("value", one.value, two.value))
        if mine != others
    ]
    if one.timestamp != two.timestamp:
        differences.append(f"timestamp ({one.timestamp} and {two.timestamp})")
    if one.headers != two.headers:
        differences.append("headers")
    return (
        f"the records at offset {one.offset} differ in "
        f"{', '.join(differences) or 'bytes that could not be read again'}"
    )


def _size(text: bytes | None) -> str:
    return "null" if text is None else f"{len(text)} bytes"
