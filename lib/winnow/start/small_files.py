"""The small text files of a log directory as a broker reads them (Kafka's `CheckpointFile` and
`PartitionMetadataFile`). Winnow's own readers, in `logdir`, refuse more than a broker does.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

from winnow.logdir.names import MAX_INT, MAX_LONG, PARTITION_METADATA
from winnow.start.values import Fate

_INTEGER = re.compile(rb"[+-]?[0-9]{1,40}")
_METADATA_LINE = re.compile(r":\s+")
_UUID_BYTES = 16
_MAX_UUID_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file keeps a broker from loading a log, and what the broker does."""

    fate: Fate
    words: str


def checkpoint_problem(data: bytes, *, words: int) -> str | None:
    """Return why a broker can't read a checkpoint, or None if it can.

    `words`: the number of words in a line: 3 in an offset checkpoint, 2 in a leader epoch
    checkpoint. All words but a topic's name are numbers, of which the last is a long.
    """
    return next(_checkpoint_problems(data.splitlines(), words), None)


def _checkpoint_problems(lines: list[bytes], words: int) -> Iterator[str]:
    """Yield problems in the order in which a broker meets them. The first ends the reading."""
    if lines and not (_is_number(lines[0], MAX_INT) and int(lines[0]) == 0):
        yield "its first line is not version 0"
    if len(lines) < 2:
        return
    if not _is_number(lines[1], MAX_INT):
        yield "its second line is not a number of entries"
    entries = lines[2:]
    for number, line in enumerate(entries, start=3):
        found = line.split()
        numbers = found[1:] if words == 3 else found
        limits = [*[MAX_INT] * (len(numbers) - 1), MAX_LONG]
        if len(found) != words or not all(map(_is_number, numbers, limits)):
            yield f"its line {number} is malformed"
    if len(entries) != int(lines[1]):
        yield f"it announces {int(lines[1])} entries and has {len(entries)}"


def _is_number(word: bytes, limit: int) -> bool:
    return _INTEGER.fullmatch(word) is not None and -limit - 1 <= int(word) <= limit


def topic_id_or_problem(data: bytes) -> str | Problem:
    """Return the topic id in a `partition.metadata`, or what a broker does with a file that it
    can't read. An exception other than an IOException ends the broker.
    """
    try:
        return _topic_id(data.decode().splitlines())
    except UnicodeDecodeError:
        return Problem(Fate.OFFLINE, "its partition.metadata is not text")


def _topic_id(lines: list[str]) -> str | Problem:
    version = _value(lines[0]) if lines else ""
    topic_id = _value(lines[1]) if len(lines) > 1 else ""
    decoded = _uuid(topic_id or "")
    problem = None
    if not lines:
        problem = Fate.STOPS, "is empty"
    elif version is None or not _is_number(version.encode(), MAX_INT) or int(version) < 0:
        problem = Fate.OFFLINE, "does not begin with a version of 0 or more"
    elif len(lines) == 1:
        problem = Fate.STOPS, "ends before the topic id"
    elif topic_id is None:
        problem = Fate.OFFLINE, "has a malformed line instead of the topic id"
    elif decoded is None:
        problem = Fate.STOPS, "has a malformed topic id"
    elif not any(decoded):
        problem = Fate.OFFLINE, "has a topic id of zeros"
    if problem is not None or decoded is None:
        fate, words = problem or (Fate.STOPS, "is empty")
        return Problem(fate, f"its {PARTITION_METADATA} {words}")
    return base64.urlsafe_b64encode(decoded).decode().rstrip("=")


def _value(line: str) -> str | None:
    """Return the value of a line `key: value`, None for any other line."""
    words = _METADATA_LINE.split(line)
    return words[1] if len(words) == 2 else None


def _uuid(text: str) -> bytes | None:
    if len(text) > _MAX_UUID_CHARACTERS or not text.isascii():
        return None
    try:
        bare = text.rstrip("=")
        decoded = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if len(decoded) == _UUID_BYTES else None
