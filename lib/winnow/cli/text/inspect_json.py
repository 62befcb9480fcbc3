"""The one JSON object of `inspect --json`. It is written while the files are read, since a log may
not fit into memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from winnow.cli.out import fields_of
from winnow.verbs.inspect.values import (
    FileDescription,
    FileProblem,
    InternalRecord,
    NamesLine,
    Note,
    PositionLine,
)


def pieces(
    files: Iterable[FileDescription],
    positions: Sequence[PositionLine],
    problems: Sequence[FileProblem],
) -> Iterator[str]:
    """Yield the text. `problems`: of all that is read."""
    yield '{"files": ['
    for number, file in enumerate(files):
        yield ",\n" if number else "\n"
        yield from _file(file)
    rest = {
        "positions": [_position(position) for position in positions],
        "problems": len(problems),
        "status": "damaged" if problems else "sound",
    }
    yield f"\n], {_json(rest)[1:]}\n"


def _file(file: FileDescription) -> Iterator[str]:
    head = {
        "path": file.path,
        "kind": file.kind,
        "bytes": file.size,
        "base_offset": file.base_offset,
    }
    yield f'{_json(head)[:-1]}, "entries": ['
    separator = "\n  "
    remarks: list[FileProblem | Note] = []
    names: list[str] = []
    for line in file.lines:
        if isinstance(line, (FileProblem, Note)):
            remarks.append(line)
        elif isinstance(line, NamesLine):
            names += line.names
        else:
            yield separator + _json(line)
            separator = ",\n  "
    yield f"], {_json({'names': names} | _remarks(remarks))[1:]}"


def _position(position: PositionLine) -> dict[str, Any]:
    value: dict[str, Any] = plain(position)
    del value["lines"]
    return value | _remarks(position.lines)


def _remarks(lines: Sequence[FileProblem | Note]) -> dict[str, list[str]]:
    return {
        "problems": [line.message for line in lines if isinstance(line, FileProblem)],
        "notes": [line.message for line in lines if isinstance(line, Note)],
    }


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever JSON has
    """Return what json accepts: dataclasses as objects, bytes as text if they are UTF-8, otherwise
    as `{"hex": ...}`.
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    if isinstance(value, InternalRecord):
        return {
            "type": value.type,
            "key": dict(value.key),
            "value": None if value.value is None else dict(value.value),
        }
    return fields_of(value)


_json = json.JSONEncoder(default=plain).encode
