"""The one JSON object of `inspect --json`. It is written while the files are read, since a log may
not fit into memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from winnow.cli.out import Contents
from winnow.verbs.inspect.values import (
    FileDescription,
    InternalRecord,
    NamesLine,
    Note,
    PositionLine,
    Problem,
)


class Output:
    """`problems` counts the problems once everything is written."""

    def __init__(self, out: Contents) -> None:
        self._out = out
        self.problems = 0

    def write(self, files: Iterable[FileDescription], positions: Sequence[PositionLine]) -> None:
        self._out.json('{"files": [')
        separator = "\n"
        for file in files:
            self._out.json(separator)
            self._file(file)
            separator = ",\n"
        shown = [self._position(position) for position in positions]
        status = "damaged" if self.problems else "sound"
        rest = _json({"positions": shown, "problems": self.problems, "status": status})
        self._out.json(f"\n], {rest[1:]}\n")

    def _file(self, file: FileDescription) -> None:
        head = {
            "path": file.path,
            "kind": file.kind,
            "bytes": file.size,
            "base_offset": file.base_offset,
        }
        self._out.json(f'{_json(head)[:-1]}, "entries": [')
        separator = "\n  "
        remarks: list[Problem | Note] = []
        names: list[str] = []
        for line in file.lines:
            if isinstance(line, (Problem, Note)):
                remarks.append(line)
                continue
            if isinstance(line, NamesLine):
                names += line.names
                continue
            self._out.json(separator + _json(line))
            separator = ",\n  "
        rest = {"names": names} | self._remarks(remarks)
        self._out.json(f"], {_json(rest)[1:]}")

    def _position(self, position: PositionLine) -> dict[str, Any]:
        value: dict[str, Any] = plain(position)
        del value["lines"]
        return value | self._remarks(position.lines)

    def _remarks(self, lines: Iterable[Problem | Note]) -> dict[str, list[str]]:
        lines = list(lines)
        problems = [line.message for line in lines if isinstance(line, Problem)]
        self.problems += len(problems)
        return {
            "problems": problems,
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
    return {field.name: getattr(value, field.name) for field in fields(value)}


_json = json.JSONEncoder(default=plain).encode
