"""Clean data that is read from one place and written to another (docs/decisions/0024).

    source ──fetch──▶ private copy on a local disk ──clean in place──▶ ──put──▶ destination

Each batch holds as much as the work space allows, and at least one partition. The source is not
changed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from winnow.cleaning.result import PartitionResult, RunResult
from winnow.errors import NO_SPACE, NoSpaceError, StoppedError, UsageError, WinnowError
from winnow.logdir.copies import NO_LOG
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.meta import no_log_dir
from winnow.logdir.names import LOCK, META_PROPERTIES, UNFINISHED
from winnow.runtime.progress import Progress
from winnow.runtime.run_directory import run_directory
from winnow.runtime.stop import Stop
from winnow.storage.creating import create_directory, create_file, ensure_directories
from winnow.storage.file_tree import FileTree, StoredFile
from winnow.storage.local import LocalStorage
from winnow.storage.local_tree import LocalTree, make_directory
from winnow.storage.places import free_bytes
from winnow.verbs.output.destination import Destination, begin, check_free, clear
from winnow.verbs.output.source import (
    Source,
    Unit,
    batches,
    is_metadata,
    open_sources,
    refuse_changed,
)
from winnow.words import counted, first_few

_WORK = ".winnow-work"
"""In a destination on a local disk: the private copy that is being cleaned, then moved into place
file by file. It also keeps a broker from starting, since it is a sub-directory that is not a
partition's.
"""
_AT_ONCE = 8
"""Concurrent requests. A remote place is slow for each request but handles many at once."""

InPlace = Callable[[Sequence[str]], RunResult]
"""Plans or cleans log directories of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Sources and destinations. Without destinations, as for a plan, copies are deleted."""

    sources: Sequence[FileTree]
    destinations: Sequence[FileTree] = ()
    begin_again: bool = False
    """First remove what an unfinished run left at the destinations."""
    work_dir: str | None = None
    """Place for copies that can't be beside their destination; None: that for temporary files."""
    work_space: int | None = None
    """Bytes fetched at once. None: all to a local destination, else half of the free space."""

    def __post_init__(self) -> None:
        if self.destinations and len(self.destinations) != len(self.sources):
            raise UsageError(
                "a destination for each log directory is needed",
                expected=f"--output {len(self.sources)} times, in the order of the log directories",
                found=str(len(self.destinations)),
            )
        for number, tree in enumerate(self.destinations):
            for other in (*self.sources, *self.destinations[:number]):
                if _overlap(tree.url, other.url):
                    raise UsageError(
                        "a destination can't be inside a log directory or another destination, or "
                        "contain one",
                        found=f"{tree.url} and {other.url}",
                        hint="To clean in place, leave out --output.",
                    )


def clean_elsewhere(
    asked: Elsewhere,
    in_place: InPlace,
    *,
    check: Callable[[Collection[str]], None],
    run_id: str,
    stop: Stop,
    progress: Progress,
) -> RunResult:
    """Run `in_place` on private copies, batch by batch, and write the results to the destinations.
    `check` is called first, with all topics.

    Raises UsageError, LogDirInUseError and NoSpaceError before anything is fetched. Raises
    StoppedError if the run was stopped, CorruptLogError if a source changed, and WinnowError for an
    operation that a place fails or does not support. In these cases the destinations are
    unfinished.
    """
    with _told(asked, stop), ExitStack() as stack:
        sources = open_sources(asked.sources, stack, to_change=bool(asked.destinations))
        _check_room(asked, sources)
        # One empty batch if there is no partition: the files beside the partitions count, too.
        units = list(_units(sources))
        check({unit.directory.rpartition("-")[0] for unit in units})
        found = list(batches(units, _space(asked))) or [[]]
        destinations = []
        for source, tree in zip(sources, asked.destinations, strict=bool(asked.destinations)):
            check_free(tree, begin_again=asked.begin_again)
            if tree.local_path is not None:
                like = source.tree.local_path if source.doubt is None else None
                make_directory(tree.local_path, like=like)
                stack.enter_context(lock_log_dir(tree.local_path))
            to = begin(
                tree,
                run_id=run_id,
                source=source.tree.url,
                begin_again=asked.begin_again,
                left_out=source.doubt,
            )
            destinations.append(to)
        works = [stack.enter_context(_work_dir(asked, number)) for number in range(len(sources))]
        legs = [_Leg(*leg) for leg in zip_longest(sources, works, destinations)]
        journey = _Journey(legs, stop, progress)
        results: list[RunResult] = []
        journey.begin()
        for batch in found:
            results.append(journey.batch(batch, in_place))
            if results[-1].refused:
                for to in destinations:
                    clear(to.tree)
                legs, destinations = [replace(leg, to=None) for leg in legs], []
                break
        if destinations:
            journey.rest()
            refuse_changed(sources)
        whole = [leg for leg in legs if leg.source.doubt is None]
        metas = [LocalStorage().read_bytes(f"{leg.work}/{META_PROPERTIES}") for leg in whole]
        for work in works:
            shutil.rmtree(work)
        for leg, meta in zip(whole, metas, strict=True):
            if leg.to is not None:
                leg.to.finish(meta)
    return _merged(results, run_id=run_id, legs=legs)


@contextmanager
def _told(asked: Elsewhere, stop: Stop) -> Iterator[None]:
    """Say what became of the destinations if the run is stopped or a place fails."""
    try:
        yield
    except StoppedError:
        if not asked.destinations:
            raise
        raise StoppedError(
            f"the run was stopped, {stop.reason}",
            where=", ".join(tree.url for tree in asked.destinations),
            hint="The copy there is incomplete. Run again with --begin-again to replace it.",
        ) from None
    except OSError as error:
        kind = NoSpaceError if error.errno in NO_SPACE else WinnowError
        raise kind(
            "a place can't be reached, read or written",
            found=str(error) or type(error).__name__,
            hint="No output was completed. Fix the cause and run again, with --begin-again if the "
            "run had begun to write.",
        ) from error


@dataclass(frozen=True, slots=True)
class _Leg:
    """The way of one log directory: its private copy is at `work`. Of a log directory in doubt the
    copy has empty directories only, so that the run leaves its partitions alone, and those that
    other log directories have, too.
    """

    source: Source
    work: str
    to: Destination | None


@dataclass(frozen=True, slots=True)
class _Journey:
    legs: Sequence[_Leg]
    stop: Stop
    progress: Progress

    def begin(self) -> None:
        """Fetch what every batch needs: the files beside the partitions, and the metadata log."""
        for leg in self.legs:
            if leg.source.doubt is not None:
                os.close(create_file(f"{leg.work}/{UNFINISHED}"))
                for directory in filter(is_metadata, leg.source.named):
                    create_directory(f"{leg.work}/{directory}")
            needed = [
                file
                for file in leg.source.files
                if "/" not in file.name or is_metadata(file.name.partition("/")[0])
            ]
            self._fetch(leg, needed)

    def batch(self, units: Sequence[Unit], in_place: InPlace) -> RunResult:
        for unit in units:
            ensure_directories(f"{self.legs[unit.source].work}/{unit.directory}")
            self._fetch(self.legs[unit.source], unit.files)
        result = in_place([leg.work for leg in self.legs])
        self.stop.check()
        if not result.refused:
            for unit in units:
                self._publish(self.legs[unit.source], unit.directory)
        for unit in units:
            shutil.rmtree(f"{self.legs[unit.source].work}/{unit.directory}")
        return result

    def rest(self) -> None:
        """Write the rest of the private copies: checkpoints, and the unchanged metadata log."""
        for leg in self.legs:
            self._publish(leg, "")

    def _fetch(self, leg: _Leg, files: Sequence[StoredFile]) -> None:
        tree, work = leg.source.tree, leg.work

        def fetch(file: StoredFile) -> None:
            path = f"{work}/{file.name}"
            ensure_directories(os.path.dirname(path))
            tree.fetch(file, path)

        self._each(files, fetch, f"fetching from {tree.url}")

    def _publish(self, leg: _Leg, directory: str) -> None:
        to, work = leg.to, leg.work
        if to is None or leg.source.doubt is not None:
            return
        files = [
            file
            for file in LocalTree(work).list_tree()
            if file.name.startswith(f"{directory}/" if directory else "")
            and file.name not in {LOCK, META_PROPERTIES}
        ]
        put = partial(to.put, work)
        self._each(files, put, f"writing to {to.tree.url}")

    def _each(
        self, files: Sequence[StoredFile], do: Callable[[StoredFile], None], name: str
    ) -> None:
        """Carry files in threads. An exception is raised again after the calls that had begun have
        ended.
        """
        self.progress.stage(name, total_bytes=sum(file.size for file in files))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="winnow-carry") as pool:
            sizes = {pool.submit(do, file): file.size for file in files}
            try:
                for future in as_completed(sizes):
                    future.result()
                    self.progress.advance(sizes[future])
                    self.stop.check()
            finally:
                for future in sizes:
                    future.cancel()


@contextmanager
def _work_dir(asked: Elsewhere, number: int) -> Iterator[str]:
    """Make the directory of a private copy, and remove it at the end in any case."""
    there = asked.destinations[number].local_path if asked.destinations else None
    if there is None:
        path = os.path.realpath(
            tempfile.mkdtemp(prefix="winnow-", dir=asked.work_dir or run_directory())
        )
    else:
        path = f"{there}/{_WORK}"
        shutil.rmtree(path, ignore_errors=True)  # left by a killed run; we hold the lock
        create_directory(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _units(sources: Sequence[Source]) -> Iterator[Unit]:
    for number, source in enumerate(sources):
        for directory, files in source.directories().items():
            if not is_metadata(directory):
                yield Unit(number, directory, files)


def _space(asked: Elsewhere) -> int | None:
    if asked.work_space is not None:
        return asked.work_space
    if asked.destinations and all(tree.local_path is not None for tree in asked.destinations):
        return None
    return max(0, free_bytes(asked.work_dir or run_directory())) // 2


def _check_room(asked: Elsewhere, sources: Sequence[Source]) -> None:
    """Check free space at local destinations before anything is written: each first gets all of its
    source.
    """
    for source, tree in zip(sources, asked.destinations, strict=bool(asked.destinations)):
        if tree.local_path is None:
            continue
        there = tree.local_path
        while not os.path.isdir(there):
            there = os.path.dirname(there)
        needed, free = sum(file.size for file in source.files), free_bytes(there)
        if asked.work_space is None and needed > free:
            raise NoSpaceError(
                "not enough space for a copy of the log directory",
                expected=f"{needed} bytes",
                found=str(max(0, free)),
                where=tree.url,
                hint="Use a larger disk, or copy less at once with --work-space SIZE.",
            )


def _overlap(one: str, other: str) -> bool:
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)


def _merged(results: Sequence[RunResult], *, run_id: str, legs: Sequence[_Leg]) -> RunResult:
    """Merge the results of all batches into one, under the names of the log directories."""
    named = {leg.work: leg.source.tree.url for leg in legs}

    def renamed(text: str) -> str:
        for leg in legs:
            if leg.source.doubt is not None:  # nothing of it was fetched
                why = str(no_log_dir(leg.work, unfinished=True))
                text = text.replace(why, str(leg.source.doubt))
                path = rf"{re.escape(leg.work)}/\S{{1,4096}}"
                text = re.sub(rf"({path}) \({NO_LOG}\)", r"\1 (not read)", text)
        for copy, source in named.items():
            text = text.replace(copy, source)
        return text

    def of(partition: PartitionResult) -> PartitionResult:
        return replace(
            partition,
            log_dir=named.get(partition.log_dir, partition.log_dir),
            reason=renamed(partition.reason),
            error=None if partition.error is None else renamed(partition.error),
        )

    peaks = [result.peak_extra_bytes for result in results if result.peak_extra_bytes is not None]
    return replace(
        results[0],
        run_id=run_id,
        partitions=tuple(of(partition) for result in results for partition in result.partitions),
        notes=(
            *dict.fromkeys(renamed(note) for result in results for note in result.notes),
            *(_what_became(leg.source, leg.to) for leg in legs if leg.to is not None),
        ),
        strangers=tuple(dict.fromkeys(renamed(one) for each in results for one in each.strangers)),
        refused=any(result.refused for result in results),
        peak_extra_bytes=max(peaks, default=None),
    )


def _what_became(source: Source, to: Destination) -> str:
    """Return what a source and its destination are after the run, in words."""
    at, there = source.tree.url, to.tree.url
    if source.doubt is None:
        return f"{at} was only read; the cleaned log directory is {there}"
    lacks = "its partitions"
    if source.named:
        lacks = f"{counted(len(source.named), 'partition')}: {first_few(source.named, 5)}"
    return (
        f"{at} was left out, so {there} is no log directory: the output lacks {lacks}. Start no "
        f"broker on the output yet. Put {at} right, then clean it with --output {there} "
        "--begin-again"
    )
