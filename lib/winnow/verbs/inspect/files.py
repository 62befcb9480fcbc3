"""One file: its kind by name, its content, and whether it changed while it was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import javaproperties

from winnow.errors import CorruptLogError, WinnowError
from winnow.logdir.checkpoints import read_leader_epochs, read_offset_checkpoint
from winnow.logdir.meta import read_meta, read_topic_id
from winnow.logdir.names import (
    BOOTSTRAP_CHECKPOINT,
    CLEANED,
    DELETED,
    LEADER_EPOCHS,
    LOG,
    META_PROPERTIES,
    METADATA_SNAPSHOT,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    SWAP,
    base_offset_of,
    segment_file,
    topic_partition_of,
)
from winnow.logdir.snapshots import read_snapshot
from winnow.storage.contract import Entry, Storage
from winnow.verbs.inspect.indexes import IndexedLog, describe_index, describe_txn_index
from winnow.verbs.inspect.logs import describe_log
from winnow.verbs.inspect.values import (
    CheckpointLine,
    EpochLine,
    FileDescription,
    FileKind,
    FileProblem,
    Line,
    PropertyLine,
)
from winnow.wire.internal_topics import INTERNAL_TOPICS

_KIND_OF_NAME = {
    **dict.fromkeys(OFFSET_CHECKPOINTS, FileKind.OFFSET_CHECKPOINT),
    LEADER_EPOCHS: FileKind.LEADER_EPOCHS,
    META_PROPERTIES: FileKind.PROPERTIES,
    PARTITION_METADATA: FileKind.PROPERTIES,
    BOOTSTRAP_CHECKPOINT: FileKind.METADATA_SNAPSHOT,
}
_NAMED_BY_BASE = frozenset(
    (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX, FileKind.SNAPSHOT)
)
_KIND_OF_SUFFIX = {
    **{f".{kind}": kind for kind in _NAMED_BY_BASE},
    ".checkpoint": FileKind.METADATA_SNAPSHOT,
}
_UNFINISHED = (CLEANED, SWAP, DELETED)


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory and its entries at the time of listing."""

    path: str
    entries: dict[str, Entry]
    only: str | None = None
    """The one file that was asked for. None: all of them."""

    @property
    def is_log_dir(self) -> bool:
        return META_PROPERTIES in self.entries

    @property
    def topic(self) -> str | None:
        """The topic whose partition it is; None for any other directory."""
        partition = topic_partition_of(self.path.rpartition("/")[2])
        return None if partition is None else partition.topic


def list_directory(storage: Storage, path: str) -> Directory:
    return Directory(path, {entry.name: entry for entry in storage.list_dir(path)})


def describe_file(
    storage: Storage, directory: Directory, name: str, *, records: bool
) -> FileDescription:
    """Describe the file `name` of a directory. With `records`, include those of each batch.

    Never raises for what is in the file or happens to it: that is reported in its lines. Raises
    FileNotFoundError if the file is not in the directory.
    """
    path, entry = f"{directory.path}/{name}", directory.entries.get(name)
    if entry is None:
        raise FileNotFoundError(path)
    kind, base_offset = kind_of(name)[0], None
    lines: Iterator[Line] = iter([FileProblem(f"not a regular file ({path})")])
    try:
        base_offset = base_offset_of(name) if kind in _NAMED_BY_BASE else None
        if entry.is_file:
            read = _lines(storage, directory, entry, base_offset or 0, records=records)
            lines = _unchanged(storage, path, entry, read)
    except CorruptLogError as error:
        lines = iter([FileProblem(f"{error} ({path})")])
    return FileDescription(path, kind, entry.size, base_offset, lines)


def kind_of(name: str) -> tuple[FileKind, str]:
    """Return the kind of a file by its name, and the suffix of an unfinished replacement or
    deletion (`` if there is none).
    """
    state = next((suffix for suffix in _UNFINISHED if name.endswith(suffix)), "")
    plain = name.removesuffix(state)
    kind = _KIND_OF_SUFFIX.get(plain[plain.rfind(".") :], FileKind.OTHER)
    if kind is FileKind.METADATA_SNAPSHOT and not METADATA_SNAPSHOT.fullmatch(plain):
        kind = FileKind.OTHER
    return kind if state else _KIND_OF_NAME.get(plain, kind), state


def _lines(
    storage: Storage, directory: Directory, entry: Entry, base: int, *, records: bool
) -> Iterator[Line]:
    """Read the file lazily: nothing is read before the first line is requested."""
    path = f"{directory.path}/{entry.name}"
    kind, state = kind_of(entry.name)
    match kind:
        case FileKind.LOG | FileKind.METADATA_SNAPSHOT:
            topic = directory.topic if directory.topic in INTERNAL_TOPICS else None
            yield from describe_log(
                storage, path, size=entry.size, base_offset=base, records=records, topic=topic
            )
        case FileKind.INDEX | FileKind.TIMEINDEX:
            yield from describe_index(storage, path, _log_of(directory, base, state), kind)
        case FileKind.TXNINDEX:
            yield from describe_txn_index(storage, path, _log_of(directory, base, state))
        case FileKind.SNAPSHOT:
            yield from read_snapshot(storage, path)
        case FileKind.OFFSET_CHECKPOINT:
            for key, offset in read_offset_checkpoint(storage, path).items():
                yield CheckpointLine(key.topic, key.partition, offset)
        case FileKind.LEADER_EPOCHS:
            for epoch, start_offset in read_leader_epochs(storage, directory.path):
                yield EpochLine(epoch, start_offset)
        case FileKind.PROPERTIES:
            yield from _properties(storage, directory.path, entry.name)
        case FileKind.OTHER:
            pass


def _log_of(directory: Directory, base: int, state: str) -> IndexedLog:
    """Return the log that an index belongs to: same base offset and same state, otherwise the plain
    one.

    An unfinished log merges several segments, so its end is unknown.
    """
    files = {name: entry for name, entry in directory.entries.items() if entry.is_file}
    plain = segment_file(base, LOG)
    later = [name for name in files if name.endswith(LOG) and name > plain and name[:1].isdigit()]
    following = base_offset_of(min(later)) if later and not state else None
    for name in (plain + state, plain):
        if name in files:
            return IndexedLog(f"{directory.path}/{name}", files[name].size, base, following)
    return IndexedLog(None, 0, base, following)


def _properties(storage: Storage, directory: str, name: str) -> list[Line]:
    path = f"{directory}/{name}"
    data = storage.read_bytes(path)
    if name == META_PROPERTIES:
        read_meta(storage, directory)
        found = javaproperties.loads(data.decode("latin-1"))
        return [PropertyLine(*pair) for pair in sorted(found.items())]
    try:
        pairs = [line.partition(":") for line in data.decode().splitlines()]
    except UnicodeDecodeError:
        pairs = []
    lines: list[Line] = [PropertyLine(key.strip(), value.strip()) for key, _, value in pairs]
    try:
        if read_topic_id(storage, directory) is None:
            lines.append(FileProblem(f"expected a topic_id, found an empty file ({path})"))
    except CorruptLogError as error:
        lines.append(FileProblem(str(error)))
    return lines


def _unchanged(storage: Storage, path: str, entry: Entry, lines: Iterator[Line]) -> Iterator[Line]:
    """Yield `lines`, then a Problem if the file can't be read or has changed."""
    try:
        yield from lines
        now = storage.entry(path)
    except WinnowError as error:
        yield FileProblem(str(error))
    except FileNotFoundError:
        yield FileProblem(f"the file was removed while it was read ({path})")
    except OSError as error:
        yield FileProblem(f"can't be read: {error.strerror or error} ({path})")
    else:
        if now != entry:
            was, is_now = (f"{e.size} bytes of {e.mtime_ms}" for e in (entry, now))
            yield FileProblem(
                f"the file changed while it was read: {was}, then {is_now}. Is a broker running on "
                f"it? ({path})"
            )
