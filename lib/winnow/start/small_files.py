"""The small text files of a log directory as a broker reads them (Kafka's `CheckpointFile` and
`PartitionMetadataFile`). Winnow's own readers, in `logdir`, refuse more than a broker does.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from winnow.logdir.checkpoints import MOST_ENTRIES
from winnow.logdir.meta import canonical_uuid
from winnow.logdir.names import MAX_INT, MAX_LONG, PARTITION_METADATA
from winnow.start.values import Fate

_INTEGER = re.compile(rb"[+-]?[0-9]{1,40}")
_METADATA_LINE = re.compile(r":\s+")
_NO_ID = "A" * 22


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
    return next(_checkpoint_problems(data, words), None)


def _checkpoint_problems(data: bytes, words: int) -> Iterator[str]:
    """Yield problems in the order in which a broker meets them. The first ends the reading."""
    lines = _lines(data)
    version, announced = next(lines, None), next(lines, None)
    if version is not None and not (_is_number(version, MAX_INT) and int(version) == 0):
        yield "its first line is not version 0"
    if announced is None:
        return
    if not _is_number(announced, MAX_INT):
        yield "its second line is not a number of entries"
    if int(announced) > MOST_ENTRIES:
        yield f"it announces {int(announced)} entries, and Winnow reads up to {MOST_ENTRIES}"
    number = 2
    for number, line in enumerate(lines, start=3):
        found = line.split(maxsplit=words)
        numbers = found[1:] if words == 3 else found
        limits = [*[MAX_INT] * (len(numbers) - 1), MAX_LONG]
        if len(found) != words or not all(map(_is_number, numbers, limits)):
            yield f"its line {number} is malformed"
    if number - 2 != int(announced):
        yield f"it announces {int(announced)} entries and has {number - 2}"


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines as Java's readLine does: one is in memory at a time."""
    with io.TextIOWrapper(io.BytesIO(data), "latin-1", newline=None) as lines:
        for line in lines:
            yield line.removesuffix("\n").encode("latin-1")


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
    found = canonical_uuid(topic_id or "")
    problem = None
    if not lines:
        problem = Fate.STOPS, "is empty"
    elif version is None or not _is_number(version.encode(), MAX_INT) or int(version) < 0:
        problem = Fate.OFFLINE, "does not begin with a version of 0 or more"
    elif len(lines) == 1:
        problem = Fate.STOPS, "ends before the topic id"
    elif topic_id is None:
        problem = Fate.OFFLINE, "has a malformed line instead of the topic id"
    elif found is None:
        problem = Fate.STOPS, "has a malformed topic id"
    elif found == _NO_ID:
        problem = Fate.OFFLINE, "has a topic id of zeros"
    if problem is not None or found is None:
        fate, words = problem or (Fate.STOPS, "is empty")
        return Problem(fate, f"its {PARTITION_METADATA} {words}")
    return found


def _value(line: str) -> str | None:
    """Return the value of a line `key: value`, None for any other line."""
    words = _METADATA_LINE.split(line)
    return words[1] if len(words) == 2 else None
