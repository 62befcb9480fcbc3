"""How transactions run through a log, from summaries of its segments (S4.1, S5.8).

Each segment is summarised alone: per producer the data before its first marker there, that marker, the last one, and
the data after it. What lies between them begins and ends inside the segment and is settled there. Folding the
summaries in order gives what only the whole log can tell: which producers have data of a transaction that is under
way at each segment's start, which transactions are undecided, and whether the transaction index agrees with the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.policy.producers import Undecided
from winnow.policy.transactions import Carried, sequence
from winnow.wire.control import ControlType

EVENT = np.dtype([("producer_id", np.int64), ("offset", np.int64), ("kind", np.int8)])
"""A transactional data batch or a marker: base offset, and DATA or a `ControlType`."""

RUN = np.dtype(
    [
        ("producer_id", np.int64),
        ("head", np.int64),  # offset of the first data before the first marker, or at all if there is no marker; -1
        ("first_marker", np.int64),  # -1: none
        ("first_aborted", np.bool_),
        ("first_entry", np.int64),  # first offset by the index entry of the first marker, -1: has none
        ("last_marker", np.int64),
        ("tail", np.int64),  # offset of the first data after the last marker, -1: none
        ("lingers", np.int8),  # after the markers that follow the first: 1 yes, 0 no, -1 as after the first
    ]
)
"""One producer in one segment."""

_ABORT = int(ControlType.ABORT)
_HINT = (
    "Aborted records would come back, or committed ones go. Copy the partition from another replica, or delete the "
    ".index files of these segments and start a broker once, which rebuilds the indexes."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRuns:
    """Transactions in one segment."""

    runs: NDArray[np.void]
    """Dtype RUN."""
    undecided: Undecided | None = None
    """The earliest that begins below the high watermark and ends at or above it, all inside the segment. Those that
    begin below the log start offset don't count: see `Fold.undecided`."""


def reduced(events: NDArray[np.void]) -> NDArray[np.void]:
    """Only the markers, and of the data between two of them the first of each producer; nothing else counts."""
    if not len(events):
        return events
    seen = sequence(events["kind"], events["producer_id"], events["offset"])
    return np.asarray(events[np.sort(seen.rows[seen.end | (seen.first == seen.offset)])])


def summarise(
    events: NDArray[np.void],
    aborted: NDArray[np.void],
    *,
    high_watermark: int,
    log_start_offset: int = 0,
    where: tuple[str, str],
) -> SegmentRuns:
    """Of one segment whose `events` (dtype EVENT) are in log order. `aborted`: its index, dtype ABORTED.

    `where`: paths of the index and of the log. Below the log start offset an ABORT marker may have no entry: Kafka's
    cleaner doesn't ask for those that end there, and drops them. Raises CorruptLogError where index and log disagree
    inside the segment.
    """
    seen = sequence(events["kind"], events["producer_id"], events["offset"])
    aborting = seen.end & (events["kind"][seen.rows] == _ABORT)
    entry = _entries_of(seen.offset, seen.producer_id, aborting, aborted)
    _check_entries(aborted, entry, where)
    entry_first = np.full(len(seen.rows), -1)
    has_entry = entry >= 0
    entry_first[has_entry] = aborted["first_offset"][entry[has_entry]]
    wrong = aborting & (seen.first >= 0) & ((entry < 0) | (seen.first < entry_first))
    wrong &= seen.offset >= log_start_offset
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise _without_entry(int(seen.producer_id[at]), int(seen.first[at]), int(seen.offset[at]), where)
    wrong = has_entry & (seen.previous >= entry_first)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise _across_marker(
            int(seen.producer_id[at]), int(entry_first[at]), int(seen.offset[at]), int(seen.previous[at]), where
        )
    straddling = seen.end & (seen.first >= log_start_offset) & (seen.first < high_watermark)
    straddling &= seen.offset >= high_watermark
    undecided = None
    if straddling.any():
        at = int(np.flatnonzero(straddling)[np.argmin(seen.first[straddling])])
        undecided = Undecided(
            first_offset=int(seen.first[at]), producer_id=int(seen.producer_id[at]), marker_offset=int(seen.offset[at])
        )
    lasts = np.flatnonzero(seen.last)
    runs = np.zeros(len(lasts), RUN)
    runs["producer_id"] = seen.producer_id[lasts]
    runs["last_marker"] = np.where(seen.end[lasts], seen.offset[lasts], seen.previous[lasts])
    without_marker = runs["last_marker"] < 0
    runs["tail"] = np.where(seen.end[lasts] | without_marker, -1, seen.first[lasts])
    runs["head"] = np.where(without_marker, seen.first[lasts], -1)
    runs["first_marker"] = runs["first_entry"] = -1
    firsts = np.flatnonzero(seen.end & (seen.previous < 0))
    rows = np.searchsorted(runs["producer_id"], seen.producer_id[firsts])
    runs["head"][rows] = seen.first[firsts]
    runs["first_marker"][rows] = seen.offset[firsts]
    runs["first_aborted"][rows] = aborting[firsts]
    runs["first_entry"][rows] = entry_first[firsts]
    # Data of an aborted transaction below the log start offset is taken for committed (see `Carried.lingering`).
    begins = aborting & (seen.first >= 0) & (seen.offset < log_start_offset)
    changes = np.flatnonzero((begins | (seen.end & ~aborting)) & (seen.previous >= 0))
    runs["lingers"] = -1
    # The last change of each producer is what is assigned last.
    runs["lingers"][np.searchsorted(runs["producer_id"], seen.producer_id[changes])] = begins[changes]
    return SegmentRuns(runs=runs, undecided=undecided)


def _entries_of(
    offsets: NDArray[np.int64], producers: NDArray[np.int64], aborting: NDArray[np.bool_], aborted: NDArray[np.void]
) -> NDArray[np.int64]:
    """Row in `aborted` (ascending by marker) of each ABORT marker, -1 if there is none."""
    if not len(aborted):
        return np.full(len(offsets), -1)
    at = np.minimum(np.searchsorted(aborted["last_offset"], offsets), len(aborted) - 1)
    same = aborting & (aborted["last_offset"][at] == offsets) & (aborted["producer_id"][at] == producers)
    return np.where(same, at, -1)


def _check_entries(aborted: NDArray[np.void], entry: NDArray[np.int64], where: tuple[str, str]) -> None:
    found = np.zeros(len(aborted), np.bool_)
    found[entry[entry >= 0]] = True
    if not found.all():
        row = aborted[np.flatnonzero(~found)[0]]
        raise _disagree(
            f"an ABORT marker of producer {row['producer_id']} at offset {row['last_offset']}, as the index says",
            "none there in the log",
            where,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What the segments of a log say of its transactions together."""

    carried: tuple[Carried, ...]
    """Per segment, by what lies before it."""
    opened: Mapping[int, int]
    """Producer id -> first offset of its transaction that is open at the log's end."""
    undecided: Undecided | None
    """The earliest transaction that is open at the log's end, or ends at or above the high watermark. Those that begin
    below the log start offset don't count: a broker reads the log from there on, and if it knows of their beginning,
    then from a snapshot (`policy.producers`)."""


def fold(
    segments: Iterable[SegmentRuns],
    *,
    high_watermark: int,
    log_start_offset: int = 0,
    where: Sequence[tuple[str, str]],
) -> Fold:
    """Of all segments in order. `where`: the paths of each one's index and log, for errors.

    Raises CorruptLogError where the index of a segment disagrees with the log of earlier ones.
    """
    opened: dict[int, int] = {}
    ended: dict[int, int] = {}
    lingers: frozenset[int] = frozenset()
    carried: list[Carried] = []
    undecided: list[Undecided] = []
    for segment, files in zip(segments, where, strict=True):
        carried.append(Carried(frozenset(opened), lingers))
        if segment.undecided is not None:
            undecided.append(segment.undecided)
        for producer, head, marker, aborted, entry, last_marker, tail, after in segment.runs.tolist():
            if head >= 0:
                opened.setdefault(producer, head)
            if marker < 0:
                continue
            first = opened.pop(producer, None)
            if aborted and first is not None and marker >= log_start_offset and not 0 <= entry <= first:
                raise _without_entry(producer, first, marker, files)
            if 0 <= entry <= ended.get(producer, -1):
                raise _across_marker(producer, entry, marker, ended[producer], files)
            if first is not None and log_start_offset <= first < high_watermark <= marker:
                undecided.append(Undecided(first_offset=first, producer_id=producer, marker_offset=marker))
            unknown = aborted and marker < log_start_offset
            lingers = _with(lingers, producer, _after_marker(after, first, aborted=aborted, unknown=unknown))
            ended[producer] = last_marker
            if tail >= 0:
                opened[producer] = tail
    undecided += [
        Undecided(first_offset=first, producer_id=producer, marker_offset=None)
        for producer, first in opened.items()
        if first >= log_start_offset
    ]
    return Fold(
        carried=tuple(carried),
        opened=opened,
        undecided=min(undecided, key=lambda u: (u.first_offset, u.producer_id), default=None),
    )


def _after_marker(after: int, first: int | None, *, aborted: bool, unknown: bool) -> int:
    """RUN's `lingers` once the first marker is known to have data from offset `first` on."""
    if after >= 0:
        return after
    return 0 if not aborted else 1 if unknown and first is not None else -1


def _with(lingers: frozenset[int], producer: int, change: int) -> frozenset[int]:
    return lingers if change < 0 else lingers | {producer} if change else lingers - {producer}


def _without_entry(producer: int, first: int, marker: int, where: tuple[str, str]) -> CorruptLogError:
    return _disagree(
        f"an entry for the transaction of producer {producer} from offset {first} to its ABORT marker at {marker}",
        "none in the index",
        where,
    )


def _across_marker(producer: int, first: int, last: int, marker: int, where: tuple[str, str]) -> CorruptLogError:
    return _disagree(
        f"no end of a transaction of producer {producer} between {first} and {last}, which the index calls one",
        f"a marker at offset {marker}",
        where,
    )


def _disagree(expected: str, found: str, where: tuple[str, str]) -> CorruptLogError:
    return CorruptLogError(
        "the transaction index and the markers in the log disagree",
        expected=expected,
        found=found,
        where=" and ".join(where),
        hint=_HINT,
    )
