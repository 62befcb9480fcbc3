"""The small text files of a log directory as a broker reads them (Kafka's `CheckpointFile` and
`PartitionMetadataFile`). Winnow's own readers, in `logdir`, refuse more than a broker does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from winnow.errors import CorruptLogError, LinkError
from winnow.logdir.checkpoints import (
    LAST_CHAR,
    MOST_ENTRIES,
    lines_of,
    read_offset_checkpoint,
    words_of_line,
)
from winnow.logdir.meta import canonical_uuid
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    MAX_INT,
    MAX_LONG,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from winnow.policy.versions import KnownVersion
from winnow.start.values import Fate
from winnow.state import TopicPartition
from winnow.storage.contract import Storage, read_if_there
from winnow.storage.links import words_of_link

_INTEGER = re.compile(r"[+-]?\d{1,40}")
_METADATA_LINE = re.compile(r":\s+", re.ASCII)
_NO_ID = "A" * 22
EPOCH_WORDS, OFFSET_WORDS = 2, 3
"""In a line of a leader epoch checkpoint, and of an offset checkpoint."""
_UNTIL, _GOES_ON = (3, 0, 0), (3, 9, 0)
"""Versions before the first take a log directory offline for a word that is no number. Those from
the second on do not; what those between them do was not tried.
"""
_AT_A_WRONG_NUMBER = {
    CLEANER_CHECKPOINT: (Fate.LOADS, ". The broker starts, but its log cleaner ends"),
    LOG_START_CHECKPOINT: (
        Fate.UNKNOWN,
        ". The broker starts without the log start offsets in it: deleted records come back",
    ),
    HIGH_WATERMARK_CHECKPOINT: (
        Fate.NOT_SERVED,
        ". The broker starts, but serves none of the partitions there, and hardly any other",
    ),
    RECOVERY_POINT_CHECKPOINT: (Fate.LOADS, ". The broker takes all recovery points in it for 0"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file keeps a broker from loading a log, and what the broker does."""

    fate: Fate
    words: str


@dataclass(frozen=True, slots=True)
class CheckpointProblem:
    words: str
    is_number: bool = False
    """A word of an entry is no number that Java reads. Later versions answer with another exception
    than for all other problems, which nothing takes for a failure of the disk.
    """

    def __str__(self) -> str:
        return self.words


def checkpoint_problem(data: bytes, *, words: int) -> CheckpointProblem | None:
    """Return why a broker can't read a checkpoint, or None if it can.

    `words`: the number of words in a line: 3 in an offset checkpoint, 2 in a leader epoch
    checkpoint. All words but a topic's name are numbers, of which the last is a long.
    """
    try:
        return next(_checkpoint_problems(data, words), None)
    except UnicodeDecodeError:
        return CheckpointProblem("it is not text")


def _checkpoint_problems(data: bytes, words: int) -> Iterator[CheckpointProblem]:
    """Yield problems in the order in which a broker meets them. The first ends the reading."""
    lines, problem = lines_of(data), CheckpointProblem
    version, announced = next(lines, None), next(lines, None)
    if version is not None and not (_is_number(version, MAX_INT) and int(version) == 0):
        yield problem("its first line is not version 0")
    if announced is None:
        return
    if not _is_number(announced, MAX_INT):
        yield problem("its second line is not a number of entries")
    count = int(announced)
    if count > MOST_ENTRIES:
        yield problem(f"it announces {count} entries, and Winnow reads up to {MOST_ENTRIES}")
    number = 2
    for number, line in enumerate(lines, start=3):
        found = words_of_line(line)
        numbers = found[1:] if words == 3 else found
        limits = [*[MAX_INT] * (len(numbers) - 1), MAX_LONG]
        # Java's `split` finds an empty word before a space at the beginning.
        if len(found) != words or line[:1].isspace():
            yield problem(f"its line {number} is malformed")
        elif not all(map(_is_number, numbers, limits)):
            yield problem(f"its line {number} has no number that Java reads", is_number=True)
    if number - 2 != count:
        yield problem(f"it announces {count} entries and has {number - 2}")


def unreadable_checkpoints(
    storage: Storage, log_dir: str, kafka: KnownVersion
) -> Iterator[tuple[str, Fate]]:
    """Yield what a broker does because of each offset checkpoint that it can't read, and why."""
    for name in OFFSET_CHECKPOINTS:
        fate, then = Fate.OFFLINE, ""
        problem: CheckpointProblem | str | None
        try:
            data = read_if_there(storage, f"{log_dir}/{name}")
            problem = None if data is None else checkpoint_problem(data, words=OFFSET_WORDS)
        except LinkError:
            problem, fate = words_of_link(f"{log_dir}/{name}"), Fate.UNKNOWN
        except CorruptLogError as error:
            problem = error.what
        except OSError as error:
            problem = str(error)
        if isinstance(problem, CheckpointProblem) and problem.is_number:
            if kafka.oldest.first >= _GOES_ON:
                fate, then = _AT_A_WRONG_NUMBER[name]
            elif kafka.newest.last >= _UNTIL:
                fate = Fate.UNKNOWN
        if problem is not None:
            yield f"{log_dir}/{name} can't be read: {problem}{then}", fate


def checkpoint_as_read(storage: Storage, path: str) -> dict[TopicPartition, int]:
    """Return the offsets in a checkpoint. Empty if it can't be read: a broker that starts then uses
    none of them.
    """
    try:
        return {
            key: max(0, offset) for key, offset in read_offset_checkpoint(storage, path).items()
        }
    except (CorruptLogError, OSError):
        return {}


def _is_number(word: str, limit: int) -> bool:
    """Whether Java reads it: with digits of any script, but none that takes two of its chars."""
    if _INTEGER.fullmatch(word) is None or max(word) > LAST_CHAR:
        return False
    return -limit - 1 <= int(word) <= limit


def topic_id_or_problem(data: bytes) -> str | Problem:
    """Return the topic id in a `partition.metadata`, or what a broker does with a file that it
    can't read. An exception other than an IOException ends the broker.
    """
    try:
        return _topic_id([*lines_of(data)])
    except UnicodeDecodeError:
        return Problem(Fate.OFFLINE, "its partition.metadata is not text")


def _topic_id(lines: list[str]) -> str | Problem:
    version = _value(lines[0]) if lines else ""
    topic_id = _value(lines[1]) if len(lines) > 1 else ""
    found = canonical_uuid(topic_id or "")
    problem = None
    if not lines:
        problem = Fate.STOPS, "is empty"
    elif version is None or not _is_number(version, MAX_INT) or int(version) < 0:
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
