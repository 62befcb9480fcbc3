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
        shown = ", ".join(map(str, wanted)) or "none"
        strange = ", ".join(map(str, sorted({*found} ^ {*wanted})))
        expected = f"the segments {shown} below {bound.active.base_offset}"
        raise moved_on(expected, f"different segments: see {strange}", directory)
    for segment in bound.closed:
        path = log[segment.base_offset]
        if _known(storage, path, segment.base_offset) != segment:
            raise moved_on("a closed segment as it was before the run", "a different one", path)
    base, known = bound.active.base_offset, bound.active
    if base not in log:
        expected = f"the segment at {base}, which was active when the run began"
        raise moved_on(expected, "none", directory)
    path, size = log[base], known.log_bytes
    if storage.entry(path).size < size or _ends(storage, path, size) != known.ends_sha256:
        expected = f"a segment that begins with the {size} bytes it had"
        raise moved_on(expected, "other bytes", path)


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
    aborted = hashlib.sha256(storage.read_bytes(index) if storage.exists(index) else b"")
    ends = _ends(storage, path, size)
    return KnownSegment(base_offset, size, entry.mtime_ns, ends, aborted.hexdigest())


def _ends(storage: Storage, path: str, size: int) -> str:
    digest = hashlib.sha256(storage.read_range(path, 0, min(size, _END_BYTES)))
    last = max(0, size - _END_BYTES)
    digest.update(storage.read_range(path, last, size - last))
    return digest.hexdigest()
