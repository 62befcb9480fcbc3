"""Finish or roll back what a crash interrupted, exactly as Kafka's loader would (S6.3, passes 1-3
and orphans of 4).

`.cleaned` files were never complete: they are removed, and with them every `.swap` at or above the
lowest of them. The remaining `.swap` files are complete: they replace everything in their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from winnow.errors import CorruptLogError
from winnow.logdir.commit.keeping import settle_kept
from winnow.logdir.commit.set_aside import QUARANTINE_SUFFIX, settle_quarantine
from winnow.logdir.commit.staging import remove_staging, staging_run_id
from winnow.logdir.files import remove_files
from winnow.logdir.names import (
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    KEEPING_SUFFIX,
    KEPT_PREFIX,
    LOG,
    QUARANTINE_PREFIX,
    SNAPSHOT,
    STAGING_PREFIX,
    SWAP,
    base_offset_of,
    segment_file,
)
from winnow.storage.contract import COMMIT_RECORD, Entry, Storage


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """Names inside the partition directory. Both empty: there was nothing to do."""

    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.renamed)


@dataclass(frozen=True, slots=True)
class _Steps:
    """What to do, in this order, with directory syncs in between."""

    stale_swaps: tuple[str, ...]
    cleaned: tuple[str, ...]
    replaced: tuple[str, ...]
    swap_logs: tuple[str, ...]
    swap_rest: tuple[str, ...]
    orphans: tuple[str, ...]
    snapshots: tuple[str, ...]
    deleted: tuple[str, ...]
    staging: tuple[str, ...]


def preview(
    storage: Storage, directory: str, entries: Sequence[Entry] | None = None
) -> RecoveryReport:
    """Return what `recover` would do. Read-only. Raises CorruptLogError where it would refuse.
    `entries`: of the directory, if they are known.
    """
    entries = storage.list_dir(directory) if entries is None else entries
    left = leftover_names(entries)
    if not left:
        return RecoveryReport()
    return _settled(left, _report(_plan(storage, directory, entries)))


def leftover_names(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the names that `recover` would act on in a directory with these entries.

    Raises CorruptLogError for a leftover whose name has no offset: Kafka's loader throws on it
    (S1.10).
    """
    _refuse_links(entries)
    names = [entry.name for entry in entries if entry.is_file]
    unfinished = [name for name in names if name.endswith((CLEANED, SWAP))]
    for name in unfinished:
        base_offset_of(name)
    left = {
        *unfinished,
        *_orphans(names, entries),
        *(name for name in names if name.endswith(DELETED)),
        *staging_names(entries),
        *(name for name in names if name == COMMIT_RECORD),
    }
    return tuple(sorted(left))


def _refuse_links(entries: Sequence[Entry]) -> None:
    found = [
        entry.name
        for entry in entries
        if entry.is_link and entry.name.endswith((CLEANED, SWAP, DELETED))
    ]
    if found:
        raise CorruptLogError(
            "not a regular file",
            expected="a file",
            found="a symbolic link",
            where=found[0],
            hint="No broker makes links there. Find out who made it, and remove it.",
        )


def recover(storage: Storage, directory: str, *, keep: Sequence[str] = ()) -> RecoveryReport:
    """Bring a partition directory into the state in which a broker's loader would use it. Hold the
    lock.

    `keep`: paths of staging directories that are left untouched. May be interrupted at any point
    and run again. Raises CorruptLogError, before anything is changed, unless every `.swap` log is
    whole and may replace what lies in its range (`winnow.logdir.commit.swap_checks`).
    """
    left = leftover_names(_entries(storage, directory, keep))
    if not left:
        return RecoveryReport()
    with storage.changing(directory):
        report = _recover(storage, directory, _entries(storage, directory, keep))
    return _settled(left, report)


def _settled(left: Sequence[str], report: RecoveryReport) -> RecoveryReport:
    settled = (COMMIT_RECORD,) if COMMIT_RECORD in left else ()
    return replace(report, removed=(*settled, *report.removed))


def _entries(storage: Storage, directory: str, keep: Sequence[str]) -> list[Entry]:
    return [
        entry for entry in storage.list_dir(directory) if f"{directory}/{entry.name}" not in keep
    ]


def _recover(storage: Storage, directory: str, entries: Sequence[Entry]) -> RecoveryReport:
    steps = _plan(storage, directory, entries)
    # Remove .swap first: without the .cleaned beside it, a half-renamed output would look complete.
    for names in (steps.stale_swaps, steps.cleaned, steps.replaced):
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
    for names in (steps.orphans, steps.snapshots, steps.deleted):
        remove_files(storage, directory, names)
    links = {entry.name for entry in entries if entry.is_link}
    for name in steps.staging:
        if name in links:
            storage.unlink(f"{directory}/{name}")
            continue
        run_id = staging_run_id(name, KEEPING_SUFFIX)
        if run_id is not None:
            settle_kept(storage, directory, run_id=run_id)
        run_id = staging_run_id(name, QUARANTINE_SUFFIX)
        if run_id is not None:
            settle_quarantine(storage, directory, run_id=run_id)
        remove_staging(storage, f"{directory}/{name}")
    return _report(steps)


def _report(steps: _Steps) -> RecoveryReport:
    return RecoveryReport(
        removed=(
            *steps.stale_swaps,
            *steps.cleaned,
            *steps.replaced,
            *steps.orphans,
            *steps.snapshots,
            *steps.deleted,
            *steps.staging,
        ),
        renamed=tuple(
            (name, name.removesuffix(SWAP)) for name in (*steps.swap_logs, *steps.swap_rest)
        ),
    )


def _plan(storage: Storage, directory: str, entries: Sequence[Entry]) -> _Steps:
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    names = sorted(sizes)
    cleaned = [name for name in names if name.endswith(CLEANED)]
    lowest_cleaned = min(map(base_offset_of, cleaned), default=None)
    swaps = [name for name in names if name.endswith(SWAP)]
    stale = [
        name
        for name in swaps
        if lowest_cleaned is not None and base_offset_of(name) >= lowest_cleaned
    ]
    swaps = [name for name in swaps if name not in stale]
    logs = [name for name in swaps if name.endswith(LOG + SWAP)]
    replaced: list[str] = []
    if logs:
        first = base_offset_of(logs[0])
        handled = {*cleaned, *stale}
        from winnow.logdir.commit.swap_checks import check_swaps  # noqa: PLC0415 - it loads numba, and is hardly ever needed

        end = check_swaps(
            storage, directory, {name: sizes[name] for name in names if name not in handled}, logs
        )
        replaced = [
            name
            for name in names
            if not name.endswith(SWAP) and name not in handled and _in(name, first, end)
        ]
    handled = {*cleaned, *stale, *replaced, *swaps}
    after = sorted(
        {
            *(name for name in names if name not in handled),
            *(name.removesuffix(SWAP) for name in swaps),
        }
    )
    orphans = _orphans(after, entries)
    return _Steps(
        stale_swaps=tuple(stale),
        cleaned=tuple(cleaned),
        replaced=tuple(replaced),
        swap_logs=tuple(logs),
        swap_rest=tuple(name for name in swaps if name not in logs),
        orphans=orphans,
        snapshots=_stray_snapshots(after),
        deleted=tuple(name for name in after if name.endswith(DELETED)),
        staging=staging_names(entries),
    )


def _in(name: str, first: int, end: int) -> bool:
    """Whether the loader counts this file to the range. A name without a number never is in it."""
    digits, dot, _ = name.partition(".")
    return bool(dot) and digits.isascii() and digits.isdigit() and first <= int(digits) < end


def _orphans(names: Sequence[str], entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return index files without a log: remains of a segment whose removal was interrupted (S6.6).

    If the log exists but is not a regular file, its indexes are not orphans: that is damage, and
    they are kept.
    """
    known = {*names, *(entry.name for entry in entries if not entry.is_file)}
    return tuple(
        name
        for name in names
        if name.endswith(INDEX_SUFFIXES) and segment_file(base_offset_of(name), LOG) not in known
    )


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


def staging_names(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the staging directories in a partition directory, and links with such names. Only the
    link itself is removed, not its target.
    """
    return tuple(
        entry.name
        for entry in entries
        if (entry.is_dir or entry.is_link)
        and entry.name.startswith(STAGING_PREFIX)
        and not entry.name.startswith((KEPT_PREFIX, QUARANTINE_PREFIX))
    )
