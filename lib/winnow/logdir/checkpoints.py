"""Kafka's text checkpoints: offsets per partition, and the leader epochs of one partition (S1.5,
S7.4).

0                 version
2                 number of lines that follow
topicA 0 1234     or `epoch startOffset` in a leader-epoch-checkpoint
topicB 7 99
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from winnow.errors import CorruptLogError
from winnow.logdir.names import LEADER_EPOCHS, MAX_INT, MAX_LONG, META_PROPERTIES
from winnow.runtime.joint_writes import JointWrites
from winnow.state import TopicPartition
from winnow.storage.contract import Storage, entry_if_there, read_if_there

_NUMBER = re.compile(r"\+?0*(\d{1,19})")
"""As Java reads it: with digits of any script. No more digits than a long has: Python refuses to
parse thousands of digits.
"""
_AS_WRITTEN = re.compile(rb"0\n([0-9]{1,6})\n((?:[a-zA-Z0-9._-]{1,249} [0-9]{1,9} [0-9]{1,18}\n)*)")
_EPOCHS_AS_WRITTEN = re.compile(rb"0\n([0-9]{1,6})\n((?:[0-9]{1,9} [0-9]{1,18}\n)*)")
_LIKE_A_NUMBER = re.compile(r"[+-]?[0-9]{1,24}")
MOST_ENTRIES = 500_000
"""An offset checkpoint has an entry for each partition of a log directory."""
_SPACES = re.compile(r"[ \t\n\v\f\r]+")
_MOST_WORDS = 100
LAST_CHAR = "\uffff"
"""The last char of Java: `Character.digit` accepts no digit above it."""
OFFLINE_HINT = "A broker would take the whole log directory offline; restore or remove the file."


def read_offset_checkpoint(
    storage: Storage, path: str, *, strict: bool = False
) -> dict[TopicPartition, int]:
    """Return the offset of each partition, in the order of the file. Empty if the file is missing
    or empty. Of a partition that is named twice, the last line counts, as for a broker.

    An offset may be negative: Kafka reads it, and every rule takes it for an offset below the log.

    Raises CorruptLogError for anything that a broker would not read: it takes the whole log
    directory offline. `strict`: also for a partition that is named twice, which no broker writes.
    """
    usual = _usual(read_if_there(storage, path) or b"")
    if usual is not None:
        return usual
    offsets: dict[TopicPartition, int] = {}
    for where, (topic, partition, offset) in _read_lines(storage, path, fields=3):
        key = TopicPartition(topic, _number(partition, MAX_INT, "a partition number", where))
        if key in offsets and strict:
            raise _malformed(where, "each partition once", f"{key} again")
        is_negative = offset.startswith("-") and offset[1:2].isdigit()
        digits, limit = (offset[1:], MAX_LONG + 1) if is_negative else (offset, MAX_LONG)
        number = _number(digits, limit, "an offset", where)
        offsets[key] = -number if is_negative else number
    return offsets


def _usual(data: bytes) -> dict[TopicPartition, int] | None:
    """Return the entries of a file as brokers write it, many times faster than line by line. None
    for any other.
    """
    found = _AS_WRITTEN.fullmatch(data)
    if found is None:
        return None
    words = found[2].decode().split()
    offsets = dict(
        zip(
            map(TopicPartition, words[::3], map(int, words[1::3])),
            map(int, words[2::3]),
            strict=True,
        )
    )
    count = int(found[1])
    return offsets if len(offsets) == count == len(words) // 3 <= MOST_ENTRIES else None


def update_offset_checkpoint(
    storage: Storage, path: str, updates: Mapping[TopicPartition, int | None]
) -> bool:
    """Set entries, or remove those whose value is None, in one read-modify-write (S8.7).

    All other entries and the order of lines are kept. New entries are sorted into the last lines
    that ascend, so the file is the same in whatever order threads add them. Returns False if
    nothing had to be written. Raises CorruptLogError if the current file cannot be read; such a
    file is never replaced.

    Threads may call this at the same time for different entries. When it returns, the entries are
    durable. One write may cover the updates of several threads (docs/decisions/0050).
    """
    return _writes_of(path).add((storage, updates))


_Updates: TypeAlias = Mapping[TopicPartition, int | None]


_Writes: TypeAlias = JointWrites[tuple[Storage, _Updates]]
_WRITES: dict[str, _Writes] = {}
"""By path of the checkpoint."""


def _writes_of(path: str) -> _Writes:
    # Not `functools.cache`: it gives one each to two threads that ask first at the same time.
    return _WRITES.setdefault(path, JointWrites(partial(_update, path)))


_WRITTEN: dict[str, tuple[tuple[int, ...], dict[TopicPartition, int]]] = {}
"""The stamp and the entries of the files that this process wrote last, by path."""


def _read_or_known(storage: Storage, path: str) -> dict[TopicPartition, int]:
    """Return the entries of a checkpoint. A file that this process wrote, and nobody has touched
    since, is not parsed again.
    """
    stamp, known = _WRITTEN.get(path, ((), {}))
    entry = entry_if_there(storage, path) if stamp else None
    if entry is not None and entry.stamp == stamp:
        return known
    return read_offset_checkpoint(storage, path)


def _update(
    path: str, wishes: Sequence[tuple[Storage, _Updates]], *, again: bool
) -> Sequence[bool]:
    storage = wishes[0][0]
    before = _read_or_known(storage, path)
    after = dict(before)
    wanted = {key: offset for _, updates in wishes for key, offset in updates.items()}
    for key, offset in wanted.items():
        if offset is None:
            after.pop(key, None)
        else:
            after[key] = offset
    if after != before or again:
        log_dir, _, _ = path.rpartition("/")
        new = sum(key in after and key not in before for key in wanted)
        entries = _in_place([*after.items()], new)
        lines = [f"{key.topic} {key.partition} {offset}" for key, offset in entries]
        write_checkpoint(storage, path, lines, attributes_of=f"{log_dir}/{META_PROPERTIES}")
        _WRITTEN[path] = storage.entry(path).stamp, dict(entries)
    return [
        any(before.get(key) != offset for key, offset in updates.items()) for _, updates in wishes
    ]


_Offset: TypeAlias = tuple[TopicPartition, int]


def _in_place(entries: Sequence[_Offset], new: int) -> Sequence[_Offset]:
    """Return the entries in the order of their lines. The last `new` of them have none yet."""
    if not new:
        return entries
    first = max(0, len(entries) - new - 1)
    while first and _place(entries[first - 1]) < _place(entries[first]):
        first -= 1
    return [*entries[:first], *sorted(entries[first:], key=_place)]


def _place(entry: _Offset) -> tuple[str, int]:
    return entry[0].topic, entry[0].partition


def write_checkpoint(
    storage: Storage, path: str, lines: Sequence[str], *, attributes_of: str
) -> None:
    """Write with Kafka's protocol: `<name>.tmp`, fsync, rename over the target, fsync of the
    directory (S1.5).

    Owner and mode are copied from the file that is replaced, or from `attributes_of` if there is
    none yet.
    """
    temporary, directory = f"{path}.tmp", path.rpartition("/")[0]
    with storage.changing(directory):
        if storage.exists(temporary):
            storage.unlink(temporary)
        storage.create(
            temporary, "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()
        )
        model = path if storage.exists(path) else attributes_of
        if storage.exists(model):
            storage.copy_attributes(model, temporary)
            storage.fsync_file(temporary)
        storage.rename(temporary, path)
        storage.fsync_dir(directory)


def read_leader_epochs(
    storage: Storage, directory: str, *, any_order: bool = False
) -> tuple[tuple[int, int], ...]:
    """Return (epoch, start offset) of a partition, ascending in both. Empty if there is no
    leader-epoch-checkpoint.

    Raises CorruptLogError for anything that a broker would not read or does not write
    (`LeaderEpochFileCache`). `any_order`: leave the order to the caller. A broker writes no other
    than the ascending one, and reads any.
    """
    path = f"{directory}/{LEADER_EPOCHS}"
    found = _EPOCHS_AS_WRITTEN.fullmatch(read_if_there(storage, path) or b"")
    if found is not None:
        numbers = [*map(int, found[2].split())]
        usual = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(usual))
        if rising and len(usual) == int(found[1]) <= MOST_ENTRIES:
            return usual
    epochs: list[tuple[int, int]] = []
    for where, (epoch_text, offset_text) in _read_lines(storage, path, fields=2):
        epoch = _number(epoch_text, MAX_INT, "an epoch", where)
        offset = _number(offset_text, MAX_LONG, "a start offset", where)
        falls = epochs and (epoch <= epochs[-1][0] or offset < epochs[-1][1])
        if falls and not any_order:
            least = f"more than epoch {epochs[-1][0]} at {epochs[-1][1]}"
            raise _malformed(where, least, f"{epoch} {offset}")
        epochs.append((epoch, offset))
    return tuple(epochs)


def fold_leader_epochs(
    epochs: Sequence[tuple[int, int]], log_start_offset: int
) -> tuple[tuple[int, int], ...]:
    """Return the epochs after the log start offset was raised (S7.4,
    `LeaderEpochFileCache.truncateFromStart`).

    Epochs that begin at or before it become one entry: the highest of them, from the log start
    offset on.
    """
    before = [epoch for epoch, offset in epochs if offset <= log_start_offset]
    later = tuple((epoch, offset) for epoch, offset in epochs if offset > log_start_offset)
    return ((before[-1], log_start_offset), *later) if before else later


def write_leader_epochs(
    storage: Storage,
    directory: str,
    epochs: Sequence[tuple[int, int]],
    *,
    attributes_of: str | None = None,
) -> None:
    """`attributes_of`: see `write_checkpoint`. None: there is a file, which is replaced."""
    path = f"{directory}/{LEADER_EPOCHS}"
    lines = [f"{epoch} {offset}" for epoch, offset in epochs]
    write_checkpoint(storage, path, lines, attributes_of=attributes_of or path)


def _read_lines(storage: Storage, path: str, *, fields: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the place of each entry, for errors, and its words. One line is in memory at a time,
    besides the file.
    """
    data = read_if_there(storage, path)
    if not data:
        return
    try:
        count_of_lines = sum(1 for _ in lines_of(data))
    except UnicodeDecodeError as error:
        raise CorruptLogError(
            "a checkpoint is not text", found=str(error), where=path, hint=OFFLINE_HINT
        ) from None
    lines = lines_of(data)
    version, version_at = next(lines), f"{path}, line 1"
    if _number(version, MAX_INT, "version", version_at):
        raise _malformed(version_at, "version 0", _shown(version))
    count_at = f"{path}, line 2"
    if count_of_lines == 1:  # a broker takes it for empty
        return
    wanted = _number(next(lines), MAX_INT, "the number of entries", count_at)
    if count_of_lines - 2 != wanted:
        raise _malformed(count_at, f"{wanted} entries", f"{count_of_lines - 2}")
    if wanted > MOST_ENTRIES:
        raise _malformed(count_at, f"at most {MOST_ENTRIES} entries", f"{wanted}")
    for number, line in enumerate(lines, start=3):
        words, where = words_of_line(line), f"{path}, line {number}"
        if len(words) != fields:
            raise _malformed(where, f"{fields} words", f"{len(words)}")
        yield where, words


def lines_of(data: bytes) -> Iterator[str]:
    """Yield the lines of a text file as Java's BufferedReader does: each ends with a line feed, a
    carriage return, or both. Keeps one line in memory at a time. Raises UnicodeDecodeError.
    """
    with io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=None) as lines:
        for line in lines:
            yield line.removesuffix("\n")


def words_of_line(line: str) -> list[str]:
    """Return the words of an entry as a broker does (Java's `split`): a space before the first word
    yields an empty word. Of a line with very many words, all after the first hundred are one word.
    """
    words = _SPACES.split(line, maxsplit=_MOST_WORDS)
    while words and not words[-1] and line:
        words.pop()
    return words


def _number(text: str, limit: int, what: str, where: str) -> int:
    number = _NUMBER.fullmatch(text)
    if number is None or int(number[1]) > limit or max(text) > LAST_CHAR:
        raise _malformed(where, f"{what} from 0 to {limit}", _shown(text))
    return int(number[1])


def _shown(text: str) -> str:
    """Return a number as it is, and any other text as its length. Another file, passed as a
    checkpoint by mistake, must not show its contents.
    """
    if _LIKE_A_NUMBER.fullmatch(text):
        return repr(text)
    return f"{len(text)} characters that are not a number"


def _malformed(where: str, expected: str, found: str) -> CorruptLogError:
    problem = "a malformed checkpoint"
    return CorruptLogError(problem, expected=expected, found=found, where=where, hint=OFFLINE_HINT)
