"""Read the JSON files that Winnow writes for itself: journals, manifests, commit records, leases.

Anybody who can write to a log directory can replace one of these files. So a reader states what it
expects of each value. Anything else raises a CorruptLogError that names the value. No number is
rounded, cut or converted: an integer must be one in the file, and in the stated range.

The parser is `json`. msgspec (0.22) is faster, but takes the last of two fields of the same name,
and refuses a lone surrogate, which stands for a byte of a path that is not UTF-8.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn, TypeVar

from winnow.errors import CorruptLogError
from winnow.storage.contract import Storage
from winnow.words import printable

_T = TypeVar("_T")

MOST_BYTES = 64 << 20
"""Maximum size of such a file. A journal takes about 500 bytes for each segment of a round."""
MOST_VALUES = 1 << 23
"""Maximum number of values in such a file. A value takes up to 72 bytes of memory, `{}` does."""
MAX_DEPTH = 12
"""Maximum nesting of objects and lists."""
MAX_LONG = 2**63 - 1
_LONGEST_TEXT = 4096
_SHOWN = 80
_LONGEST_NAME = 200
"""Characters of a value's position that an error shows."""


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value of such a file. Each method returns it as one type, or raises CorruptLogError."""

    raw: object
    path: str
    name: str = ""
    """Position inside the file, like `groups[0].output`; empty for the whole."""
    hint: str | None = None

    def fields(
        self, needed: Collection[str], allowed: Collection[str] | None = ()
    ) -> Mapping[str, JsonValue]:
        """Return an object with all fields of `needed`, others only of `allowed`; None: any."""
        raw = self._as(dict, "an object")
        missing = [name for name in needed if name not in raw]
        if missing:
            raise self.refused(f"a field {missing[0]}", "no such field")
        known = {*needed, *(raw if allowed is None else allowed)}
        other = [name for name in raw if name not in known]
        if other:
            raise self.refused(
                "only fields that this version writes", f"a field {_shown(other[0])}"
            )
        dot = "." if self.name else ""
        return {
            name: JsonValue(one, self.path, f"{self.name}{dot}{name}", self.hint)
            for name, one in raw.items()
        }

    def items(self, *, length: int | None = None) -> list[JsonValue]:
        """Return a list, of this length if one is given."""
        expected = "a list" if length is None else f"a list of {length}"
        raw = self._as(list, expected, lambda raw: length in {None, len(raw)})
        return [
            JsonValue(one, self.path, f"{self.name}[{i}]", self.hint) for i, one in enumerate(raw)
        ]

    def integer(self, *, least: int = 0, most: int = MAX_LONG) -> int:
        expected = f"an integer from {least} to {most}"
        return self._as(int, expected, lambda raw: least <= raw <= most)

    def integer_or_none(self, *, least: int = 0, most: int = MAX_LONG) -> int | None:
        return None if self.raw is None else self.integer(least=least, most=most)

    def boolean(self) -> bool:
        return self._as(bool, "true or false")

    def number(self, *, least: float, most: float) -> float:
        """Return an integer or a decimal fraction."""
        kind = float if type(self.raw) is float else int
        return self._as(kind, f"a number from {least} to {most}", lambda raw: least <= raw <= most)

    def text(self, *, shortest: int = 1, longest: int = _LONGEST_TEXT) -> str:
        """Return a text without lone surrogates, fit for a path. Lengths in characters."""
        expected = f"a text of {shortest} to {longest} characters"
        return self._as(
            str, expected, lambda raw: shortest <= len(raw) <= longest and _encodes(raw)
        )

    def file_path(self) -> str:
        """Return a path. Bytes that are not UTF-8 are lone surrogates, as `os.fsdecode` makes
        them.
        """
        expected = f"a path of 1 to {_LONGEST_TEXT} characters"
        return self._as(str, expected, lambda raw: 1 <= len(raw) <= _LONGEST_TEXT and _is_path(raw))

    def one_of(self, *texts: str) -> str:
        return self._as(str, " or ".join(texts), lambda raw: raw in texts)

    def version(self, known: int) -> None:
        """Return if the version is `known`; raise otherwise."""
        self._as(int, f"version {known}", lambda raw: raw == known)

    def base64(self) -> bytes:
        expected = "bytes in base64"
        try:
            return base64.b64decode(self._as(str, expected), validate=True)
        except ValueError:
            raise self.refused(expected) from None

    def _as(self, kind: type[_T], expected: str, fits: Callable[[_T], bool] = lambda _: True) -> _T:
        """Return the value if it has this very type (`true` is no integer) and fits."""
        if isinstance(self.raw, kind) and type(self.raw) is kind and fits(self.raw):
            return self.raw
        raise self.refused(expected)

    def refused(self, expected: str, found: str | None = None) -> CorruptLogError:
        """Return the error for this value, also for callers that expect more than its type."""
        name = f" ({printable(self.name[:_LONGEST_NAME])})" if self.name else ""
        return CorruptLogError(
            f"a file of Winnow can't be understood{name}",
            expected=expected,
            found=_shown(self.raw) if found is None else found,
            where=self.path,
            hint=self.hint or "Another version of Winnow may have written it, or it is damaged.",
        )


def read_json(
    storage: Storage, path: str, *, hint: str | None = None, most_bytes: int = MOST_BYTES
) -> JsonValue:
    """Read a whole file. Raises CorruptLogError, also for none, or no regular one; OSError."""
    whole = JsonValue(None, path, hint=hint)
    try:
        entry = storage.entry(path)
    except FileNotFoundError:
        raise whole.refused("a file", "none") from None
    if not entry.is_file:
        raise whole.refused("a file", "something else")
    if entry.size > most_bytes:
        raise whole.refused(f"at most {most_bytes} bytes", f"{entry.size} bytes")
    data = storage.read_range(path, 0, most_bytes + 1)
    return parse_json(data, path, hint=hint, most_bytes=most_bytes)


def parse_json(
    data: bytes,
    path: str,
    *,
    hint: str | None = None,
    most_bytes: int = MOST_BYTES,
    most_values: int = MOST_VALUES,
) -> JsonValue:
    """Parse the bytes of a file, in UTF-8. Raises CorruptLogError, before it parses more than
    `most_bytes` or `most_values`.
    """
    whole = JsonValue(None, path, hint=hint)
    if len(data) > most_bytes:
        raise whole.refused(f"at most {most_bytes} bytes", "more")
    # Each value begins the file, an object or a list, or follows a comma.
    if 1 + sum(map(data.count, (b"{", b"[", b","))) > most_values:
        raise whole.refused(f"at most {most_values} values", "more")
    try:
        raw = json.loads(data.decode(), parse_constant=_no_constant, object_pairs_hook=_once)
        depth = _depth(raw)
    except RecursionError:
        depth = MAX_DEPTH + 1
    except ValueError as error:
        raise whole.refused("JSON", printable(str(error))[:_SHOWN]) from None
    if depth > MAX_DEPTH:
        raise whole.refused(f"at most {MAX_DEPTH} objects or lists inside each other", "more")
    return JsonValue(raw, path, hint=hint)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field appears twice")
    return fields


def _depth(raw: Any) -> int:  # noqa: ANN401
    depth, level = 0, [raw]
    while level := [one for one in level if type(one) in {dict, list}]:
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        depth, level = depth + 1, [*chain.from_iterable(inside)]
    return depth


def _encodes(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _is_path(text: str) -> bool:
    try:
        return "\0" not in text and os.fsdecode(os.fsencode(text)) == text
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return False


def _shown(raw: object) -> str:
    if isinstance(raw, dict):
        return "an object"
    if isinstance(raw, list):
        return f"a list of {len(raw)}"
    text = json.dumps(raw[:_SHOWN] if isinstance(raw, str) else raw)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
