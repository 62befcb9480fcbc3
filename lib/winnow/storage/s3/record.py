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
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Literal, get_args

from winnow.errors import CorruptLogError
from winnow.storage.contract import COMMIT_RECORD
from winnow.storage.own_json import JsonValue, parse_json
from winnow.storage.s3.memory import inside, key_of

_VERSION = 1
_HINT = "Another version of Winnow may have written it: finish with that one (`recover`)."

State = Literal["prepared", "decided"]


@dataclass(frozen=True, slots=True)
class Copied:
    """New content of a key: bytes and time of the object `source` as it was at the commit. Size in
    bytes, time in ns since the epoch.
    """

    source: str
    size: int
    etag: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Content:
    """New content of a key: these bytes."""

    data: bytes
    mtime_ns: int

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """It names objects by their keys. The stored record names them relative to the directory."""

    directory: str
    id: str
    """Identifies the change; unique."""
    state: State
    copies: Mapping[str, Copied]
    """By key, like `contents`. No key is in two of the three."""
    contents: Mapping[str, Content]
    deletes: tuple[str, ...]
    """Keys to delete, including sources of `copies`."""

    @property
    def key(self) -> str:
        return key_of(self.directory, COMMIT_RECORD)

    @property
    def puts(self) -> Mapping[str, Copied | Content]:
        return {**self.copies, **self.contents}

    def in_order(self) -> list[list[str]]:
        """Return the keys that get a copy, in steps. No key of a step is a source in the same or a
        later step.

        Raises CorruptLogError where there is no such order.
        """
        order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(self.copies, ()))
        for key, copied in self.copies.items():
            if copied.source in self.copies and copied.source != key:
                order.add(copied.source, key)
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


def encode(record: ChangeRecord) -> bytes:
    def name(key: str) -> str:
        return key.removeprefix(inside(record.directory))

    fields = {
        "version": _VERSION,
        "id": record.id,
        "state": record.state,
        "copies": [
            [name(key), name(of.source), of.size, of.etag, of.mtime_ns]
            for key, of in record.copies.items()
        ],
        "contents": [
            [name(key), base64.b64encode(of.data).decode(), of.mtime_ns]
            for key, of in record.contents.items()
        ],
        "deletes": [*map(name, record.deletes)],
    }
    return json.dumps(fields).encode()


def decode(data: bytes, directory: str, where: str) -> ChangeRecord:
    """Parse a record. Raises CorruptLogError for anything that `encode` would not have written."""
    fields = parse_json(data, where, hint=_HINT).fields(
        ("version", "id", "state", "copies", "contents", "deletes")
    )
    fields["version"].version(_VERSION)
    copies = [row.items(length=5) for row in fields["copies"].items()]
    contents = [row.items(length=3) for row in fields["contents"].items()]
    key = partial(_key, directory)
    record = ChangeRecord(
        directory,
        fields["id"].text(shortest=0),
        "decided" if fields["state"].one_of(*get_args(State)) == "decided" else "prepared",
        {
            key(name): Copied(key(of), size.integer(), etag.text(shortest=0), time.integer())
            for name, of, size, etag, time in copies
        },
        {key(name): Content(content.base64(), time.integer()) for name, content, time in contents},
        tuple(map(key, fields["deletes"].items())),
    )
    if len({*record.puts, *record.deletes}) < len(copies) + len(contents) + len(record.deletes):
        raise fields["copies"].refused("each name once", "a name that appears twice")
    return record


def _key(directory: str, value: JsonValue) -> str:
    """Return the key of a name. It must lie below the directory."""
    name = value.text()
    if name == COMMIT_RECORD or any(part in {"", ".", ".."} for part in name.split("/")):
        raise value.refused("a name below the directory")
    return key_of(directory, name)
