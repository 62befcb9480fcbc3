"""Finish or roll back what a crash interrupted, exactly as Kafka's loader would (S6.3, passes 1-3
and orphans of 4).

`.cleaned` files were never complete: they are removed, and with them every `.swap` at or above the
lowest of them. The remaining `.swap` files are complete: they replace everything in their range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from winnow.logdir.commit.keeping import settle_kept
from winnow.logdir.commit.leftovers import (
    leftover_names,
    orphans,
    preparations,
    staging_entries,
)
from winnow.logdir.commit.lost import lost_error, lost_of, of_segments, only_in_deleted
from winnow.logdir.commit.quarantine import QUARANTINE_SUFFIX, settle_quarantine
from winnow.logdir.commit.staging import remove_staging, staging_run_id
from winnow.logdir.commit.swap_checks import check_dropped, check_swaps
from winnow.logdir.files import remove_files
from winnow.logdir.names import (
    CLEANED,
    DELETED,
    KEEPING_SUFFIX,
    LOG,
    MAX_LONG,
    SNAPSHOT,
    SWAP,
    base_offset_of,
    segment_file,
)
from winnow.storage.contract import COMMIT_RECORD, Entry, Storage

_SETTLED_FIRST = {KEEPING_SUFFIX: settle_kept, QUARANTINE_SUFFIX: settle_quarantine}
"""What to do before a staging directory with this suffix is removed."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """Names inside the partition directory. Both empty: there was nothing to do."""

    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.renamed)


@dataclass(frozen=True, slots=True)
class ForcedSwap:
    """Consent to finish a swap as a loader does it, although batches are lost."""

    end: int
    """Of the range that the `.swap` logs replace, as a loader finds it."""
    aside: str | None
    """Path of the directory that keeps the logs which go. None: they are not kept."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """What to do, in this order. The directory is synced after each log of a swap, and after each
    other sequence of names.
    """

    swept: tuple[Sequence[str], ...]
    """`.swap` files beside a `.cleaned` one, `.cleaned` files, and what `.swap` files replace."""
    swap_logs: Sequence[str]
    swap_rest: Sequence[str]
    remains: tuple[Sequence[str], ...]
    """Indexes without a log, snapshots, and `.deleted` files."""
    staging: Sequence[Entry]
    kept: Sequence[str] = ()
    """Logs that are moved into `aside` first."""
    aside: str = ""

    def report(self, left: Sequence[str]) -> RecoveryReport:
        settled = [name for name in left if name == COMMIT_RECORD]
        staging = [entry.name for entry in self.staging]
        swaps = (*self.swap_logs, *self.swap_rest)
        moved = [(name, f"{self.aside.rpartition('/')[2]}/{name}") for name in self.kept]
        return RecoveryReport(
            removed=tuple(chain(settled, *self.swept, *self.remains, staging)),
            renamed=(*moved, *((name, name.removesuffix(SWAP)) for name in swaps)),
        )


def preview(
    storage: Storage, directory: str, entries: Sequence[Entry] | None = None
) -> RecoveryReport:
    """Return what `recover` would do. Read-only. Raises CorruptLogError where it would refuse.
    `entries`: of the directory, if they are known.
    """
    entries = storage.list_dir(directory) if entries is None else entries
    left = _left(storage, directory, entries)
    return _plan(storage, directory, entries).report(left) if left else RecoveryReport()


def recover(
    storage: Storage,
    directory: str,
    *,
    keep: Sequence[str] = (),
    forced: ForcedSwap | None = None,
    entries: Sequence[Entry] | None = None,
) -> RecoveryReport:
    """Bring a partition directory into the state in which a broker's loader would use it. Hold the
    lock.

    `keep`: paths of staging directories that are left untouched. `forced`: nothing is refused.
    `entries`: of the directory, if it has just been listed. May be interrupted at any point and run
    again. Raises CorruptLogError, before anything is changed, unless every `.swap` log is whole and
    may replace what lies in its range, and each one that goes has no batch of its own
    (`winnow.logdir.commit.swap_checks`), and if a segment is lost (`winnow.logdir.commit.lost`).
    """
    entries = storage.list_dir(directory) if entries is None else entries
    left = _left(storage, directory, _without_kept(directory, entries, keep))
    if not left:
        return RecoveryReport()
    with storage.changing(directory):
        entries = _without_kept(directory, storage.list_dir(directory), keep)
        steps = _plan(storage, directory, entries, forced)
        _carry_out(storage, directory, steps)
    return steps.report(left)


def _left(storage: Storage, directory: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the names of what is removed or renamed, preparations included."""
    prepared = preparations(storage, directory, entries)
    return tuple(sorted((*leftover_names(storage, directory, entries), *prepared)))


def _without_kept(directory: str, entries: Sequence[Entry], keep: Sequence[str]) -> list[Entry]:
    return [entry for entry in entries if f"{directory}/{entry.name}" not in keep]


def _carry_out(storage: Storage, directory: str, steps: _Steps) -> None:
    if steps.kept:
        storage.ensure_dir(steps.aside)
        for name in steps.kept:
            storage.rename(f"{directory}/{name}", f"{steps.aside}/{name}")
        storage.fsync_dir(steps.aside)
        storage.fsync_dir(directory)
    # Remove .swap first: without the .cleaned beside it, a half-renamed output would look complete.
    for names in steps.swept:
        remove_files(storage, directory, names)
    # Logs first, as in S6.1: while any .log.swap exists, a loader clears the range of everything
    # else again. If there are several, as after a split, each is synced before the next rename: a
    # loader might otherwise clear it for a lower one.
    for name in steps.swap_logs:
        storage.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
        storage.fsync_dir(directory)
    for name in steps.swap_rest:
        storage.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    if steps.swap_rest:
        storage.fsync_dir(directory)
    for names in steps.remains:
        remove_files(storage, directory, names)
    for entry in steps.staging:
        for suffix, settle in _SETTLED_FIRST.items():
            run_id = None if entry.is_link else staging_run_id(entry.name, suffix)
            if run_id is not None:
                settle(storage, directory, run_id=run_id)
        remove_staging(storage, f"{directory}/{entry.name}")


def _plan(
    storage: Storage, directory: str, entries: Sequence[Entry], forced: ForcedSwap | None = None
) -> _Steps:
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    names = sorted(sizes)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    lowest_cleaned = min(map(base_offset_of, cleaned), default=MAX_LONG + 1)
    swaps = [name for name in names if name.endswith(SWAP)]
    stale = [name for name in swaps if base_offset_of(name) >= lowest_cleaned]
    swaps = [name for name in swaps if base_offset_of(name) < lowest_cleaned]
    logs = [name for name in swaps if name.endswith(LOG + SWAP)]
    others = _without(sizes, [*cleaned, *stale])
    replaced: list[str] = []
    prepared = preparations(storage, directory, entries)
    begun = [one for one in staging_entries(entries) if one.name not in prepared]
    if forced is None and not begun:  # a run of Winnow's has them elsewhere
        check_dropped(storage, directory, sizes, [n for n in stale if n.endswith(LOG + SWAP)])
    if logs:
        first = base_offset_of(logs[0])
        end = check_swaps(storage, directory, others, logs) if forced is None else forced.end
        replaced = [n for n in others if not n.endswith(SWAP) and in_range(n, first, end)]
    aside: list[str] = []
    if forced is not None and forced.aside is not None:
        final = {name.removesuffix(SWAP) for name in logs} & {*others}
        going = sorted({*stale, *replaced, *final})
        aside = [name for name in going if name.removesuffix(SWAP).endswith(LOG)]
        to_keep = {*aside}
        stale, replaced = ([n for n in names if n not in to_keep] for names in (stale, replaced))
        others = _without(others, aside)
    kept = _without(others, replaced)
    will_be = {name.removesuffix(SWAP): size for name, size in kept.items()}
    if forced is None and (lost := lost_of(storage, directory, entries, will_be)):
        raise lost_error(lost, directory)
    kept_apart = of_segments(only_in_deleted(will_be))
    after = sorted(name for name in will_be if name.partition(".")[0] not in kept_apart)
    deleted = [name for name in after if name.endswith(DELETED)]
    return _Steps(
        swept=(stale, cleaned, replaced),
        swap_logs=logs,
        swap_rest=[name for name in swaps if not name.endswith(LOG + SWAP)],
        remains=(orphans(after, entries, ()), _stray_snapshots(after), deleted),
        staging=staging_entries(entries),
        kept=aside,
        aside="" if forced is None or forced.aside is None else forced.aside,
    )


def _without(sizes: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    """Return the sizes of the other files, by name, ascending."""
    left_out = {*names}  # there may be as many as an interrupted cleaning of any broker left
    return {name: sizes[name] for name in sorted(sizes) if name not in left_out}


def in_range(name: str, first: int, end: int) -> bool:
    """Return whether a loader counts this file to the offsets [first, end) that a swap replaces. It
    ignores a name without a number (S6.3).
    """
    digits, dot, _ = name.partition(".")
    return bool(dot) and digits.isascii() and digits.isdigit() and first <= int(digits) < end


def _stray_snapshots(names: Sequence[str]) -> tuple[str, ...]:
    """Return snapshots at bases of segments whose removal was interrupted, but never the newest of
    all.

    A broker that finds none starts without any producer state (S8.4). A loader removes all
    snapshots that are not at a segment's base (S6.3). Winnow leaves those from before the crash, or
    a run would end differently because of the crash.
    """
    known = {*names}
    snapshots = {name: base_offset_of(name) for name in sorted(names) if name.endswith(SNAPSHOT)}
    return tuple(
        name
        for name, base in [*snapshots.items()][:-1]
        if segment_file(base, LOG) not in known and segment_file(base, LOG + DELETED) in known
    )
