"""The log that a kept run belongs to. An undo works on this log and no other (docs/decisions/0036).

It is recorded before the run changes anything. An undo must restore exactly this log, plus anything
appended since. A segment is identified by its size, its mtime, both ends of its log and its
transaction index. Cleaning a segment changes at least one of these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from winnow.errors import CorruptLogError
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.logdir.stored import Natural
from winnow.state import PartitionState
from winnow.storage.contract import Storage

_END_BYTES = 4096


@dataclass(frozen=True, slots=True)
class KnownSegment:
    base_offset: Natural
    log_bytes: Natural
    mtime_ns: int
    ends_sha256: str
    """SHA-256 of the first and the last 4 KiB of these bytes of the log."""
    txnindex_sha256: str
    """SHA-256 of the transaction index. A missing one counts as empty: a broker may create it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLog:
    log_end_offset: Natural
    closed: tuple[KnownSegment, ...]
    """Ascending by base offset."""
    active: KnownSegment
    """Appends may follow its known bytes. After an unclean shutdown: the first segment that was not
    trusted, with no known byte; or, if the log was read, the last segment up to its valid end.
    """


def bind(storage: Storage, state: PartitionState) -> BoundLog:
    end = state.trusted_end
    count = sum(end is None or following.base_offset <= end for following in state.segments[1:])
    logs = [
        (f"{state.directory}/{segment_file(segment.base_offset, LOG)}", segment.base_offset)
        for segment in state.segments[: count + 1]
    ]
    known_bytes = None if end is None else 0
    if state.recovered is not None:  # a broker cuts off the rest
        known_bytes = state.segments[count].log_bytes
    return BoundLog(
        log_end_offset=state.log_end_offset,
        closed=tuple(_known(storage, *log) for log in logs[:-1]),
        active=_known(storage, *logs[-1], known_bytes),
    )


def check_bound(storage: Storage, bound: BoundLog, log: Mapping[int, str], directory: str) -> None:
    """Raise CorruptLogError unless the segments of `log` (path of the `.log` by base offset) are
    this log, possibly with appends.

    Segments above the active one may be new. Their contents are not checked here.
    """
    wanted = [segment.base_offset for segment in bound.closed]
    found = [base for base in sorted(log) if base < bound.active.base_offset]
    if found != wanted:
        strange = sorted({*found} ^ {*wanted})
        raise moved_on(
            f"the segments {', '.join(map(str, wanted)) or 'none'} below "
            f"{bound.active.base_offset}",
            f"different segments: see {', '.join(map(str, strange))}",
            directory,
        )
    for segment in bound.closed:
        if _known(storage, log[segment.base_offset], segment.base_offset) != segment:
            raise moved_on(
                "a closed segment as it was before the run",
                "a different one",
                log[segment.base_offset],
            )
    base, known = bound.active.base_offset, bound.active
    if base not in log:
        raise moved_on(
            f"the segment at {base}, which was active when the run began", "none", directory
        )
    size = storage.entry(log[base]).size
    if size < known.log_bytes or _ends(storage, log[base], known.log_bytes) != known.ends_sha256:
        raise moved_on(
            f"a segment that begins with the {known.log_bytes} bytes it had",
            "other bytes",
            log[base],
        )


def moved_on(expected: str, found: str, where: str) -> CorruptLogError:
    return CorruptLogError(
        "the log has changed since the run",
        expected=expected,
        found=found,
        where=where,
        hint="A later run or a broker has cleaned or deleted here. An undo could bring deleted "
        "records back. If the later run kept what it replaced, undo that run first.",
    )


def _known(
    storage: Storage, path: str, base_offset: int, log_bytes: int | None = None
) -> KnownSegment:
    entry = storage.entry(path)
    size = entry.size if log_bytes is None else log_bytes
    index = path.removesuffix(LOG) + TXNINDEX
    aborted = storage.read_bytes(index) if storage.exists(index) else b""
    return KnownSegment(
        base_offset,
        size,
        entry.mtime_ns,
        _ends(storage, path, size),
        hashlib.sha256(aborted).hexdigest(),
    )


def _ends(storage: Storage, path: str, size: int) -> str:
    digest = hashlib.sha256(storage.read_range(path, 0, min(size, _END_BYTES)))
    last = max(0, size - _END_BYTES)
    digest.update(storage.read_range(path, last, size - last))
    return digest.hexdigest()
