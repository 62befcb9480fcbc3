"""A log directory that is only read: its files, the reasons to refuse it (S1.1, S8.1), and its
partitions in batches that are in the private copy at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

from winnow.cleaning.in_place import refuse_tiered
from winnow.errors import CorruptLogError, NoSpaceError, UsageError
from winnow.logdir.lock import share_log_dir
from winnow.logdir.meta import no_log_dir
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import (
    LOCK,
    META_PROPERTIES,
    METADATA_TOPIC,
    REMOTE_INDEX_CACHE,
    UNFINISHED,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.logdir.strangers import why_in_doubt
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.runtime.packing import in_order
from winnow.start.metadata_choice import has_metadata_log
from winnow.state import TopicPartition
from winnow.storage.contract import COMMIT_RECORD
from winnow.storage.file_tree import FileTree, StoredFile
from winnow.storage.lease_file import LEASE
from winnow.storage.places import Places
from winnow.words import counted

_NOT_OF_THE_LOG = (LOCK, UNFINISHED)


@dataclass(frozen=True, slots=True)
class Source:
    tree: FileTree
    files: tuple[StoredFile, ...]
    """All files except the lock file. Empty if the source is in doubt: it is not read."""
    doubt: UsageError | None = None
    """Why the source is left out, although others are cleaned."""
    named: tuple[str, ...] = ()
    """Names of the partition directories. Set only if the source is in doubt."""

    def directories(self) -> dict[str, tuple[StoredFile, ...]]:
        found: dict[str, list[StoredFile]] = {name: [] for name in self.named}
        for file in self.files:
            directory, slash, _ = file.name.partition("/")
            if slash:
                found.setdefault(directory, []).append(file)
        return {directory: tuple(files) for directory, files in found.items()}


def _is_of_the_log(file: StoredFile) -> bool:
    """Return False for a lease file, which may lie there although nobody renews it."""
    return file.name not in _NOT_OF_THE_LOG and not file.name.startswith(LEASE)


def is_metadata(directory: str) -> bool:
    """Return whether it is the metadata log, whose settings every choice of partitions needs."""
    return directory.startswith(f"{METADATA_TOPIC}-")


def open_sources(trees: Sequence[FileTree], locks: ExitStack, *, to_change: bool) -> list[Source]:
    """Lock and list the sources. Of several, those that can't be used are in doubt.

    Raises UsageError if none can be used, and LogDirInUseError.
    """
    several = len(trees) > 1
    paths = [tree.local_path or tree.url for tree in trees]
    surveyed = survey_log_dirs(Places(), paths, to_change=to_change) if several else [None]
    for path, log_dir in zip(paths, surveyed, strict=True):
        if log_dir is None or not log_dir.in_doubt:
            lock = share_log_dir(path)
            if lock is not None:
                locks.enter_context(lock)
    found = [
        look_at(tree) if log_dir is None else _sound_or_in_doubt(tree, log_dir)
        for tree, log_dir in zip(trees, surveyed, strict=True)
    ]
    doubts = [source.doubt for source in found if source.doubt is not None]
    if len(doubts) == len(found):
        raise doubts[0]
    return found


def _sound_or_in_doubt(tree: FileTree, log_dir: LogDir) -> Source:
    if log_dir.in_doubt and log_dir.error is not None:
        doubt = why_in_doubt(log_dir.error, log_dir.path)
    else:
        try:
            return look_at(tree)
        except UsageError as error:
            doubt = error
        except OSError as error:
            if tree.local_path is None:  # that a server can't be reached concerns all
                raise
            doubt = why_in_doubt(error, error.filename or log_dir.path)
    names = [str(topic_partition) for topic_partition in log_dir.partitions]
    if has_metadata_log(Places(), log_dir):
        names.append(METADATA_DIR)
    return Source(tree, (), doubt, tuple(names))


def look_at(tree: FileTree) -> Source:
    """List a source.

    Raises UsageError for a place that is not a log directory, is unfinished or belongs to tiered
    storage, and for a sub-directory that would keep a broker from starting. Nothing has been
    written anywhere by then.
    """
    files = tuple(file for file in tree.list_tree() if _is_of_the_log(file))
    for file in files:
        if not set(file.name.split("/")).isdisjoint({"", ".", ".."}):
            raise UsageError(
                "an invalid file name",
                expected="names between single slashes",
                found=repr(file.name),
                where=tree.url,
            )
    refuse_tiered(tree, [file.name for file in files])
    record = next(
        (file.name for file in files if file.name.rpartition("/")[2] == COMMIT_RECORD), None
    )
    if record is not None:
        raise UsageError(
            "a run was interrupted, or is still active, and has not finished its changes",
            found=record,
            where=tree.url,
            hint="`recover` finishes an interrupted run.",
        )
    names = {file.name for file in files}
    if META_PROPERTIES not in names:
        raise no_log_dir(tree.url, unfinished=UNFINISHED in tree.list_top())
    source = Source(tree, files)
    for directory in source.directories():
        if directory != REMOTE_INDEX_CACHE:
            parse_partition_dir(directory)
    return source


def refuse_changed(sources: Sequence[Source]) -> None:
    """Raise CorruptLogError if a source has changed since then: the copy would mix two states."""
    for source in sources:
        if source.doubt is not None:
            continue
        now = {file for file in source.tree.list_tree() if _is_of_the_log(file)}
        changed = sorted({file.name for file in now ^ {*source.files}})
        if changed:
            raise CorruptLogError(
                "the log directory changed while it was being read",
                expected="the same files as when the run began",
                found=f"{counted(len(changed), 'file')} added, removed or changed, for example "
                f"{changed[0]!r}",
                where=source.tree.url,
                hint="Another process is writing there. Stop it and run again.",
            )


@dataclass(frozen=True, slots=True)
class Unit:
    """A sub-directory of one of the sources. It is fetched, cleaned and written as a whole."""

    source: int
    """Number of the log directory."""
    directory: str
    files: tuple[StoredFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def partition(self) -> TopicPartition | str:
        """Return the partition that a broker takes it for, or the name of any other directory."""
        if self.directory == REMOTE_INDEX_CACHE:
            return self.directory
        found = parse_partition_dir(self.directory)
        known = found.topic_partition if found.kind is DirectoryKind.CURRENT else None
        return self.directory if known is None else known


def batches(units: Sequence[Unit], space: int | None) -> Iterator[list[Unit]]:
    """Return units in the order given, as many at once as fit into `space` bytes; None: all.

    The directories of a partition that has several are in the same batch, which shows that.

    Raises NoSpaceError for a partition that exceeds `space`: it can be cleaned only as a whole.
    """
    together: dict[TopicPartition | str, list[Unit]] = {}
    for unit in units:
        together.setdefault(unit.partition, []).append(unit)
    for some in together.values():
        if space is not None and _bytes(some) > space:
            raise NoSpaceError(
                "not enough work space: a partition is fetched as a whole before it is cleaned",
                expected=f"{_bytes(some)} bytes for {some[0].directory}",
                found=str(space),
                hint="Give more with --work-space, or a larger disk with --work-dir.",
            )
    for batch in in_order(together.values(), _bytes, space):
        yield list(chain.from_iterable(batch))


def _bytes(units: Sequence[Unit]) -> int:
    return sum(unit.bytes for unit in units)
