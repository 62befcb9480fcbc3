"""Replace sources by their cleaned segment so that a crash at any instant loses nothing (S6.1,
S6.4).

1. The staged files become `N.*.cleaned`: a loader would sweep them.
2. They become `N.*.swap`, the log first. While one of them is `.cleaned`, a loader sweeps the
   others too. After the last of these renames a loader finishes the swap instead of undoing it.
3. The sources become `.deleted`, in ascending order.
4. The `.swap` suffix is removed, from the log first.
5. Producer snapshots at bases that no longer exist become `.deleted`. Then all `.deleted` files are
   removed.

The directory is synced between the steps. Kafka relies on a file system that keeps renames in
order; Winnow does not. Only one group of a partition may be between steps 2 and 4, and groups are
swapped in ascending order.

Where there are no renames the whole swap is one change, and none of these names ever appears
(`Storage.changing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from winnow.errors import CorruptLogError
from winnow.logdir.commit.keeping import keep
from winnow.logdir.commit.leftovers import check_unchanged
from winnow.logdir.files import (
    files_in,
    files_of,
    log_bases,
    removable,
    removable_snapshots,
)
from winnow.logdir.names import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    segment_file,
)
from winnow.state import Segment, Sources
from winnow.storage.contract import Entry, Storage, entry_if_there
from winnow.storage.urls import is_remote


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedGroup(Sources):
    """A finished, synced and verified output segment that is not in the partition directory yet."""

    paths: Mapping[str, str]
    """Staged file per suffix: LOG, INDEX, TIMEINDEX, and TXNINDEX if it has entries. On the same
    file system as the partition directory.
    """
    checksums: Mapping[str, int] = field(default_factory=dict)
    """CRC-32C of the staged files by suffix, where verification has already computed it."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    """The staged files by suffix, where their sizes and times are known."""


def swap_group(storage: Storage, directory: str, group: StagedGroup) -> None:
    """Replace the sources of one group by its staged segment; see above. Hold the lock.

    Raises CorruptLogError before the first rename unless the sources are unchanged, nothing is left
    of an earlier swap, and none of them is the active segment. If it fails later,
    `recovery.recover` finishes or undoes it.
    """
    Swaps(storage, directory).swap(group)


class Swaps:
    """Swaps groups of one partition, in ascending order, while the lock is held.

    A local directory is listed once, not for each group: it may have many files that are nobody's.
    Each swap looks at its own sources again.
    """

    def __init__(
        self, storage: Storage, directory: str, entries: Sequence[Entry] | None = None
    ) -> None:
        """`entries`: of the directory, if it has just been listed."""
        self._storage, self._directory = storage, directory
        self._known: dict[str, Entry] | None = None
        """What the directory has of a log, and its directories, by name. Of what was put in place,
        only the names.
        """
        if entries is not None and not is_remote(directory):
            self._known = _to_know(entries)

    def swap(self, group: StagedGroup) -> None:
        """See `swap_group`."""
        storage, directory = self._storage, self._directory
        with storage.changing(directory):
            entries = self._entries(group)
            outputs = {group.base_offset: group.paths}
            files = check_replaceable(
                storage, directory, sources=group.sources, outputs=outputs, entries=entries
            )
            removed = removable(files, group.source_bases)
            logs = {group.base_offset: group.paths[LOG]}
            keep(storage, directory, removed, outputs=logs, entries=entries)
            here = not is_remote(directory)
            gone = exchange(
                storage,
                directory,
                sources=group.source_bases,
                outputs=outputs,
                files=files if here else None,
            )
        if here:
            new = [segment_file(group.base_offset, suffix) for suffix in group.paths]
            self._known = _to_know(entries)
            for name in gone:
                self._known.pop(name, None)
            self._known |= {name: Entry(name, is_file=True) for name in new}

    def _entries(self, group: StagedGroup) -> Sequence[Entry]:
        known = self._known
        if known is None:
            return self._storage.list_dir(self._directory)
        for base in group.source_bases:
            for suffix in SEGMENT_SUFFIXES:
                name = segment_file(base, suffix)
                found = entry_if_there(self._storage, f"{self._directory}/{name}")
                if found is None:
                    known.pop(name, None)
                else:
                    known[name] = found
        return [*known.values()]


def _to_know(entries: Sequence[Entry]) -> dict[str, Entry]:
    return {
        entry.name: entry
        for entry in entries
        if entry.is_dir or entry.name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT))
    }


def exchange(
    storage: Storage,
    directory: str,
    *,
    sources: Sequence[int],
    outputs: Mapping[int, Mapping[str, str]],
    files: Mapping[str, Entry] | None = None,
) -> list[str]:
    """Do the steps above. `check_replaceable` must have passed. Return what was removed.

    `files`: what it returned. None: the directory is listed.

    `sources`: base offsets, ascending. `outputs`: the staged file per suffix, by base offset. The
    lowest base is that of the first source, so that the range which a loader clears covers all of
    them. Several outputs, as of a split, are consecutive, with no other segment in between (S6.5).
    """
    bases = sorted(outputs)
    suffixes = {base: [s for s in SEGMENT_SUFFIXES if s in outputs[base]] for base in bases}
    for base in bases:
        for suffix in suffixes[base]:
            path = f"{directory}/{segment_file(base, suffix)}"
            storage.rename(outputs[base][suffix], path + CLEANED)
    storage.fsync_dir(directory)
    for base in reversed(bases):
        # The lowest comes last, after the others are synced: a loader would replace all sources by
        # it alone.
        for suffix in suffixes[base]:
            path = f"{directory}/{segment_file(base, suffix)}"
            storage.rename(path + CLEANED, path + SWAP)
        storage.fsync_dir(directory)
    if files is None:
        files = files_in(storage, directory)
    else:
        named = [f"{segment_file(base, one)}{SWAP}" for base in bases for one in suffixes[base]]
        files = {**files, **{name: Entry(name, is_file=True) for name in named}}
    return complete(storage, directory, files, sources=sources, outputs=suffixes)


def complete(
    storage: Storage,
    directory: str,
    files: Mapping[str, Entry],
    *,
    sources: Sequence[int],
    outputs: Mapping[int, Iterable[str]],
) -> list[str]:
    """Do the steps from 3 on, or what is left of them. Completed steps are not repeated. Return the
    names of the sources' files that were removed.

    `files`: all by name, with at least one output file not yet under its final name. `outputs`: the
    suffixes by base offset.
    """
    bases = sorted(outputs)
    begun = not all(f"{segment_file(base, LOG)}{SWAP}" in files for base in bases)
    # Once the first output has its final name, that name belongs to no source any more.
    removed = files_of(files, [base for base in sources if not (begun and base in outputs)])
    mark_deleted(storage, directory, removed)

    for base in bases:
        for suffix in SEGMENT_SUFFIXES:
            name = segment_file(base, suffix)
            if suffix in outputs[base] and name + SWAP in files:
                storage.rename(f"{directory}/{name}{SWAP}", f"{directory}/{name}")
                if suffix == LOG:
                    # Sync before the indexes: a loader would sweep a new index beside a .log.swap
                    # with the sources, and also the log of a higher base.
                    storage.fsync_dir(directory)
    storage.fsync_dir(directory)

    stale = removable_snapshots(files, [base for base in sources if base not in outputs])
    mark_deleted(storage, directory, stale)
    for name in (*removed, *stale):
        storage.unlink(f"{directory}/{name}{DELETED}")
    storage.fsync_dir(directory)
    return [*removed, *stale]


def mark_deleted(storage: Storage, directory: str, names: Sequence[str]) -> None:
    for name in names:
        storage.rename(f"{directory}/{name}", f"{directory}/{name}{DELETED}")
    if names:
        storage.fsync_dir(directory)


def check_replaceable(
    storage: Storage,
    directory: str,
    *,
    sources: Sequence[Segment],
    outputs: Mapping[int, Mapping[str, str]],
    entries: Sequence[Entry] | None = None,
) -> dict[str, Entry]:
    """Return all files by name if `exchange` may begin with these outputs. Raises CorruptLogError
    otherwise, see `swap_group`. `entries`: see `check_unchanged`.
    """
    base_offset = min(outputs)
    files = check_unchanged(storage, directory, sources, entries)
    bases = log_bases(files)
    wanted = [source.base_offset for source in sources]
    inside = [base for base in bases if wanted and wanted[0] <= base <= wanted[-1]]
    if not wanted or inside != wanted or base_offset != wanted[0]:
        raise CorruptLogError(
            "the sources of a group are not consecutive segments",
            expected=f"segments {inside} and the base offset of the first",
            found=f"{wanted} and {base_offset}",
            where=directory,
        )
    if wanted[-1] == bases[-1]:
        raise CorruptLogError(
            "the active segment would be replaced",
            expected=f"sources below {bases[-1]}",
            where=directory,
        )
    for paths in outputs.values():
        needed = [suffix for suffix in (LOG, INDEX, TIMEINDEX) if suffix not in paths]
        missing = needed + [path for path in paths.values() if not storage.exists(path)]
        if missing:
            raise CorruptLogError(
                "a staged file is missing", found=", ".join(missing), where=directory
            )
    return files
