"""The commit record of one directory in S3: what a change makes of it, written before the first object is touched.

It is `prepared`, which says no more than whose turn it is, and then, by a conditional write over that very object,
`decided`: from this moment on the change has happened. What is left of it anybody may do, any number of times.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from winnow.errors import CorruptLogError
from winnow.storage.contract import COMMIT_RECORD

_VERSION = 1
_MAX_LONG = 2**63 - 1

State = Literal["prepared", "decided"]


@dataclass(frozen=True, slots=True)
class Copied:
    """What a name gets: the bytes and the time of an object as it was at the commit.

    Names are relative to the directory, sizes in bytes, times in ns since the epoch.
    """

    source: str
    size: int
    etag: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Content:
    """What a name gets: these bytes."""

    data: bytes
    mtime_ns: int

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    id: str
    """Of the change, another one for each."""
    state: State
    puts: Mapping[str, Copied | Content]
    """By name; none is in `deletes`."""
    deletes: tuple[str, ...]
    """Names that are no more, sources of `puts` among them."""

    def in_order(self) -> list[list[str]]:
        """The names that get a copy, in steps: none of a step is the source of one of the same step or of a later one.

        Raises CorruptLogError where there is no such order.
        """
        sources = {name: put.source for name, put in self.puts.items() if isinstance(put, Copied)}
        order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(sources, ()))
        for name, source in sources.items():
            if source in sources and source != name:
                order.add(source, name)
        try:
            order.prepare()
        except CycleError as error:
            circle = ", ".join(sorted(set(error.args[1])))
            raise CorruptLogError("a commit record that names its files in a circle", found=circle[:200]) from None
        steps = []
        while order.is_active():
            steps.append(list(order.get_ready()))
            order.done(*steps[-1])
        return steps


def encode(record: Record) -> bytes:
    copies = {name: put for name, put in record.puts.items() if isinstance(put, Copied)}
    contents = {name: put for name, put in record.puts.items() if isinstance(put, Content)}
    told = {
        "version": _VERSION,
        "id": record.id,
        "state": record.state,
        "copies": [[name, put.source, put.size, put.etag, put.mtime_ns] for name, put in copies.items()],
        "contents": [[n, base64.b64encode(put.data).decode(), put.mtime_ns] for n, put in contents.items()],
        "deletes": record.deletes,
    }
    return json.dumps(told).encode()


def decode(data: bytes, where: str) -> Record:
    """Raises CorruptLogError for what `encode` would not have written."""
    try:
        return _decode(json.loads(data))
    except (ValueError, RecursionError) as problem:
        raise CorruptLogError(
            "a commit record that can't be understood",
            found=str(problem)[:200],
            where=where,
            hint="Another version of Winnow may have written it: finish with that one (`recover`).",
        ) from None


def _decode(value: object) -> Record:
    found = _of(value, dict)
    state = _of(found.get("state"), str)
    if found.get("version") != _VERSION or state not in {"prepared", "decided"}:
        raise ValueError(f"version {found.get('version')!r}, state {state!r}")
    puts: dict[str, Copied | Content] = {}
    for name, source, size, etag, mtime_ns in _rows(found, "copies", 5):
        puts[_name(name)] = Copied(_name(source), _number(size), _of(etag, str), _number(mtime_ns))
    for name, text, mtime_ns in _rows(found, "contents", 3):
        try:
            data = base64.b64decode(_of(text, str), validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None
        puts[_name(name)] = Content(data, _number(mtime_ns))
    deletes = tuple(_name(name) for name in _of(found.get("deletes"), list))
    if len({*puts, *deletes}) < len(found["copies"]) + len(found["contents"]) + len(deletes):
        raise ValueError("a name is there twice")
    return Record(id=_of(found.get("id"), str), state=state, puts=puts, deletes=deletes)


def _rows(found: Mapping[str, Any], name: str, length: int) -> Iterable[list[Any]]:
    for row in _of(found.get(name), list):
        if len(_of(row, list)) != length:
            raise ValueError(f"{name}: {row!r}")
        yield row


def _name(value: object) -> str:
    """It becomes a key: it must lie below the directory."""
    name: str = _of(value, str)
    if not name or name == COMMIT_RECORD or any(part in {"", ".", ".."} for part in name.split("/")):
        raise ValueError(f"a name: {name!r}")
    return name


def _number(value: object) -> int:
    number: int = _of(value, int)
    if isinstance(value, bool) or not 0 <= number <= _MAX_LONG:
        raise ValueError(f"a number: {value!r}")
    return number


def _of(value: object, kind: type[Any]) -> Any:  # noqa: ANN401 - of that kind
    if not isinstance(value, kind):
        raise ValueError(f"{kind.__name__}: {value!r}"[:200])  # noqa: TRY004 - of what was read, not of an argument
    if isinstance(value, str):
        value.encode()  # raises for half a surrogate pair, which no key can have
    return value
