"""The commit record of one directory in S3: the result of a change, written before the first object
is touched.

A `prepared` record only reserves the turn. A conditional write over that very object makes it
`decided`: from this moment on, the change has happened. Anybody may then complete it, any number of
times.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal, get_args

from winnow.errors import CorruptLogError
from winnow.storage.contract import COMMIT_RECORD
from winnow.storage.own_json import Value, parse_json

_VERSION = 1
_HINT = "Another version of Winnow may have written it: finish with that one (`recover`)."

State = Literal["prepared", "decided"]


@dataclass(frozen=True, slots=True)
class Copied:
    """New content of a name: bytes and time of an object as it was at the commit.

    Names are relative to the directory, sizes in bytes, times in ns since the epoch.
    """

    source: str
    size: int
    etag: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Content:
    """New content of a name: these bytes."""

    data: bytes
    mtime_ns: int

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    id: str
    """Identifies the change; unique."""
    state: State
    puts: Mapping[str, Copied | Content]
    """By name; none is in `deletes`."""
    deletes: tuple[str, ...]
    """Names to delete, including sources of `puts`."""

    def in_order(self) -> list[list[str]]:
        """Return the names that get a copy, in steps. No name of a step is a source in the same or
        a later step.

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
            raise CorruptLogError(
                "the copies of a commit record form a cycle", found=circle[:200]
            ) from None
        steps = []
        while order.is_active():
            steps.append(list(order.get_ready()))
            order.done(*steps[-1])
        return steps


def encode(record: Record) -> bytes:
    copies = {name: put for name, put in record.puts.items() if isinstance(put, Copied)}
    contents = {name: put for name, put in record.puts.items() if isinstance(put, Content)}
    fields = {
        "version": _VERSION,
        "id": record.id,
        "state": record.state,
        "copies": [
            [name, put.source, put.size, put.etag, put.mtime_ns] for name, put in copies.items()
        ],
        "contents": [
            [n, base64.b64encode(put.data).decode(), put.mtime_ns] for n, put in contents.items()
        ],
        "deletes": record.deletes,
    }
    return json.dumps(fields).encode()


def decode(data: bytes, where: str) -> Record:
    """Parse a record. Raises CorruptLogError for anything that `encode` would not have written."""
    fields = parse_json(data, where, hint=_HINT).fields(
        ("version", "id", "state", "copies", "contents", "deletes")
    )
    fields["version"].version(_VERSION)
    puts: dict[str, Copied | Content] = {}
    for row in fields["copies"].items():
        name, source, size, etag, mtime_ns = row.items(length=5)
        puts[_name(name)] = Copied(
            _name(source), size.integer(), etag.text(shortest=0), mtime_ns.integer()
        )
    for row in fields["contents"].items():
        name, data_text, mtime_ns = row.items(length=3)
        puts[_name(name)] = Content(data_text.base64(), mtime_ns.integer())
    deletes = tuple(_name(name) for name in fields["deletes"].items())
    if len({*puts, *deletes}) < len(fields["copies"].items()) + len(
        fields["contents"].items()
    ) + len(deletes):
        raise fields["copies"].refused("each name once", "a name that appears twice")
    state: State = (
        "decided" if fields["state"].one_of(*get_args(State)) == "decided" else "prepared"
    )
    return Record(id=fields["id"].text(shortest=0), state=state, puts=puts, deletes=deletes)


def _name(value: Value) -> str:
    """Return a name. It becomes a key, so it must lie below the directory."""
    name = value.text()
    if name == COMMIT_RECORD or any(part in {"", ".", ".."} for part in name.split("/")):
        raise value.refused("a name below the directory")
    return name
