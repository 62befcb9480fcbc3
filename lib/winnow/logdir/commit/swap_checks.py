"""What must be true of `.swap` logs before anything is removed for them (S6.3).

A loader clears the whole range from the lowest `.swap` log to the end of the highest one. It reads
that range from base offsets, which no CRC covers: if one bit of the last one is flipped, it removes
segments that were no sources. So every batch is checked here: its CRC, that offsets ascend, and
that it is a batch of a segment in its range, as far as those segments still exist. A rewrite keeps
the first and the last offset of each batch (S5.7).

The opposite is accepted too: all batches of the segments in the range are in the `.swap` logs. An
undo and the split of a segment (S6.5) leave that. A crash may have removed some of the segments
already. Their batches cannot be compared, and nothing of them can be lost any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import ReadStop, bad_crcs, read_to_stop
from winnow.logdir.indexes.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    decode_offset_index,
    decode_time_index,
    without_preallocated,
)
from winnow.logdir.indexes.txnindex import decode_txn_index
from winnow.logdir.names import (
    DELETED,
    INDEX,
    INDEX_SUFFIXES,
    LOG,
    SWAP,
    TIMEINDEX,
    base_offset_of,
    segment_file,
)
from winnow.storage.contract import Storage
from winnow.wire.batch import BATCH, DELETE_HORIZON, MAX_MAGIC
from winnow.wire.buffers import Rows

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


class _Part(NamedTuple):
    """Batches of one file, dtype BATCH. Their positions count from byte `start` of it."""

    file: int
    """The base offset in its name."""
    rows: Rows
    start: int


_NO_PART = _Part(-1, np.empty(0, BATCH), 0)
_HINT = (
    "Nothing was removed. Keep a copy of this directory. If the segments beside the .swap files "
    "are whole, move the "
    ".swap files of this base offset out of the directory, and run `recover` again"
)


def check_swaps(
    storage: Storage, directory: str, sizes: Mapping[str, int], swaps: Sequence[str]
) -> int:
    """Return the offset after the last batch of the `.swap` logs `swaps`, at least one.

    `sizes`: of all regular files except the ignored ones. Raises CorruptLogError unless each of the
    logs is whole and may replace what lies in the range of all.
    """
    logs, damaged = sorted(swaps), list[int]()
    first = base_offset_of(logs[0])
    plain = sorted(name for name in sizes if name.endswith(LOG))
    found = _compare(
        _outputs(storage, directory, logs, sizes),
        _sources(storage, directory, first, sizes, damaged),
        highest=base_offset_of(logs[-1]),
    )
    end = max(base_offset_of(logs[-1]), found.last_offset + 1)
    _check_indexes(storage, directory, sizes, logs, found.last_offset + 1)
    inside = [name for name in plain if first <= base_offset_of(name) < end]
    contained = not found.strangers and min(damaged, default=end) >= end
    is_split = (
        contained
        and found.mismatch is None
        and len(logs) > 1
        and inside == [segment_file(first, LOG)]
    )
    if inside and inside[-1] == plain[-1] and not is_split:
        raise _refused(
            "a .swap log reaches into the active segment",
            expected=f"offsets below {base_offset_of(plain[-1])}",
            found=f"offset {end - 1}",
            where=f"{directory}/{logs[-1]}",
        )
    if contained:
        return end
    _check_complete(directory, sizes, logs)
    if found.mismatch is not None:
        file, offset, position = found.mismatch
        raise _refused(
            "a .swap log has a batch that is in none of the segments it would replace",
            expected="a batch with the same offsets in one of them",
            found=f"none with the first offset {offset}",
            where=f"{directory}/{segment_file(file, LOG)}{SWAP} at byte {position}",
        )
    # One output may keep nothing of the segments in the middle of its range. Several outputs come
    # from an undo or a split.
    full = [base for name in inside if sizes[name] and (base := base_offset_of(name)) > first]
    if full and (len(logs) > 1 or full[-1] not in found.matched_files):
        raise _refused(
            "a .swap log would replace a segment but has none of its batches",
            expected=f"offsets below {full[-1]}",
            found=f"offset {end - 1}",
            where=f"{directory}/{logs[-1]}",
        )
    return end


def check_dropped(
    storage: Storage, directory: str, sizes: Mapping[str, int], dropped: Sequence[str]
) -> None:
    """Raise CorruptLogError if a `.swap` log that goes has a batch which is in no other log.

    `dropped`: the `.swap` logs beside a `.cleaned` file. `sizes`: of all regular files.
    """
    if not any(sizes[name] for name in dropped):
        return
    lowest, going = min(map(base_offset_of, dropped)), {*dropped}
    last_offsets = np.unique(
        np.concatenate(
            [
                item.rows["last_offset"].copy()
                for name in dropped
                for item in read_to_stop(storage, f"{directory}/{name}", size=sizes[name])
                if not isinstance(item, ReadStop)
            ]
            or [np.empty(0, np.int64)]
        )
    )
    end = int(last_offsets[-1]) + 1 if len(last_offsets) else 0
    missing = np.ones(len(last_offsets), np.bool_)
    logs = {base_offset_of(n): n for n in sizes if n.endswith((LOG + DELETED, LOG + SWAP))}
    logs |= {base_offset_of(n): n for n in sizes if n.endswith(LOG)}
    others = sorted(base for base, name in logs.items() if name not in going)
    begin = max((base for base in others if base <= lowest), default=0)
    for base in others:
        if begin <= base < end:
            path = f"{directory}/{logs[base]}"
            for item in read_to_stop(storage, path, size=sizes[logs[base]]):
                if not isinstance(item, ReadStop):
                    offsets = item.rows["last_offset"]
                    at = np.searchsorted(last_offsets, offsets[offsets < end])
                    missing[at[last_offsets[at] == offsets[offsets < end]]] = False
    if missing.any():
        raise _refused(
            "a .swap log beside a .cleaned file has batches that are in no other log",
            expected="all of them in the segments that it was made of",
            found=f"none with the last offset {last_offsets[missing][0]}",
            where=f"{directory}/{dropped[0]}",
        )


def _outputs(
    storage: Storage, directory: str, logs: Sequence[str], sizes: Mapping[str, int]
) -> Iterator[_Part]:
    """Yield the batches of all `.swap` logs, ascending. Raises CorruptLogError for a batch that is
    unreadable or has a wrong CRC or offset.
    """
    end = 0
    for name in logs:
        path, base = f"{directory}/{name}", base_offset_of(name)
        if base < end:
            raise _refused(
                "two .swap logs overlap",
                expected=f"offsets below {base}",
                found=f"offset {end - 1}",
                where=path,
            )
        for item in read_to_stop(storage, path, size=sizes[name], least_offset=base):
            if isinstance(item, ReadStop):
                raise _refused(
                    "a .swap log is damaged",
                    expected=item.error.expected or "whole batches with ascending offsets",
                    found=item.error.found or item.error.problem,
                    where=f"{path} at byte {item.position}",
                )
            for wrong in bad_crcs(item):
                raise _refused(
                    "a .swap log is damaged",
                    expected="batches that match their CRCs",
                    found="one that does not",
                    where=f"{path} at byte {item.position(wrong)}",
                )
            end = int(item.rows["last_offset"][-1]) + 1
            yield _Part(base, item.rows, item.start)


def _sources(
    storage: Storage, directory: str, first: int, sizes: Mapping[str, int], damaged: list[int]
) -> Iterator[_Part]:
    """Yield the readable batches of the segments from `first` on, including those marked as
    deleted. `damaged` receives the base offsets of those that are part of the log and cannot be
    read to their end.
    """
    by_base = {base_offset_of(n): n for n in sizes if n.endswith(LOG + DELETED)}
    by_base |= {base_offset_of(n): n for n in sizes if n.endswith(LOG)}
    least = 0
    for base, name in sorted(by_base.items()):
        is_deleted = name.endswith(DELETED)
        if base < first or (is_deleted and base < least):
            continue  # an earlier cleaning left the `.deleted` log, and its output exists
        path, least_offset = f"{directory}/{name}", max(base, least)
        for item in read_to_stop(storage, path, size=sizes[name], least_offset=least_offset):
            if isinstance(item, ReadStop):
                damaged += [] if is_deleted else [base]
                break
            least = int(item.rows["last_offset"][-1]) + 1
            yield _Part(base, item.rows, item.start)


@dataclass
class _Found:
    mismatch: tuple[int, int, int] | None = None
    """The first batch of a `.swap` log that should match one of a segment and does not: the base
    offset in the name of its file, its own first offset, and its position.
    """
    strangers: bool = False
    """A segment has a batch that is in none of the `.swap` logs."""
    matched_files: set[int] = field(default_factory=set)
    """Base offsets of the segments that a `.swap` log has a batch of."""
    last_offset: int = -1
    """The last offset that was found in the `.swap` logs so far."""


def _compare(outputs: Iterator[_Part], sources: Iterator[_Part], *, highest: int) -> _Found:
    """Merge the batches of `outputs` and `sources`, which ascend by offset. `highest`: the highest
    base offset of the outputs. An output replaces the source with its base offset, even if the
    output is empty.
    """
    found = _Found()
    out, src, src_before = _NO_PART, _NO_PART, -1
    while True:
        out = out if len(out.rows) else next(outputs, _NO_PART)
        src = src if len(src.rows) else next(sources, _NO_PART)
        if not len(out.rows):
            reached = max(found.last_offset, highest)
            found.strangers |= bool(len(src.rows)) and src.file <= reached
            return found
        both = [part.rows for part in (out, src)]
        bound = min(int(rows["last_offset"][-1]) for rows in both if len(rows))
        now_out, now_src = (rows[rows["last_offset"] <= bound] for rows in both)
        matched, at, least = _origins(now_out, src.rows, src_before)
        found.matched_files |= {src.file} if matched.any() else set()
        # Batches of a segment that is removed or truncated cannot be compared: no segment has
        # offsets on both sides of them.
        bases = now_out["base_offset"]
        inside = (at < len(src.rows)) & ((src.file <= bases) | (bases <= least))
        wrong = np.flatnonzero(~matched & inside)
        if len(wrong) and found.mismatch is None:
            row = now_out[wrong[0]]
            found.mismatch = out.file, int(row["base_offset"]), out.start + int(row["position"])
        found.strangers |= not _origins(now_src, out.rows, found.last_offset)[0].all()
        if len(now_out):
            found.last_offset = int(now_out["last_offset"][-1])
        src_before = int(now_src["last_offset"][-1]) if len(now_src) else src_before
        out = out._replace(rows=out.rows[len(now_out) :])
        src = src._replace(rows=src.rows[len(now_src) :])


def _origins(made: Rows, of: Rows, before: int) -> tuple[Bools, Integers, Integers]:
    """Return for each batch of `made`: whether it is, or may come from, a batch of `of`;
    the number of the first one that ends at or after it; the last offset of the one before that.
    `before`: the last offset before all of `of`.
    """
    at = np.searchsorted(of["last_offset"], made["last_offset"])
    least = np.concatenate([[np.int64(before)], of["last_offset"]])[at]
    matched = at < len(of)
    source, result = of[at[matched]], made[matched]
    # An old format has only the last offset, and may be converted (S5.7).
    old = (source["magic"] < MAX_MAGIC) & (result["base_offset"] > least[matched])
    same = (source["magic"] == result["magic"]) & (source["base_offset"] == result["base_offset"])
    same &= source["last_offset"] == result["last_offset"]
    # A rewritten batch has a reason: fewer records, or a delete horizon (S5.6).
    reason = (result["record_count"] < source["record_count"]) | (result["record_count"] == 0)
    reason |= ((result["attributes"] ^ source["attributes"]) & DELETE_HORIZON) != 0
    matched[matched] = old | (same & ((source["crc"] == result["crc"]) | reason))
    return matched, at, least


def _check_complete(directory: str, sizes: Mapping[str, int], logs: Sequence[str]) -> None:
    """Check that outputs which lack batches have their indexes, which show whether an output has
    lost its end. A swap renames them after the log, so none of them has its final name yet.
    """
    for name in logs:
        base = base_offset_of(name)
        for suffix in (INDEX, TIMEINDEX):
            if segment_file(base, suffix) + SWAP not in sizes:
                raise _refused(
                    "a .swap log lacks batches of the log that it would replace",
                    expected=f"all batches, or {suffix}{SWAP} beside it, as a cleaning leaves it",
                    found=f"{sizes[name]} bytes",
                    where=f"{directory}/{name}",
                )


def _check_indexes(
    storage: Storage, directory: str, sizes: Mapping[str, int], logs: Sequence[str], end: int
) -> None:
    """Check the indexes that are still `.swap` files: a broker trusts every byte of them (S8.5).
    `end`: after the last batch of the `.swap` logs.
    """
    for log, following in zip_longest(logs, logs[1:]):
        base = base_offset_of(log)
        limit = end if following is None else base_offset_of(following)
        for suffix in INDEX_SUFFIXES:
            name = segment_file(base, suffix) + SWAP
            data = storage.read_bytes(f"{directory}/{name}") if name in sizes else b""
            try:
                if suffix == INDEX:
                    data = without_preallocated(data, OFFSET_ENTRY_SIZE)
                    decode_offset_index(
                        data, name, base_offset=base, log_bytes=sizes[log], end_offset=limit
                    )
                elif suffix == TIMEINDEX:
                    data = without_preallocated(data, TIME_ENTRY_SIZE)
                    decode_time_index(data, name, base_offset=base, end_offset=limit)
                else:
                    decode_txn_index(data, name, base_offset=base, end_offset=limit)
            except CorruptLogError as error:
                raise _refused(
                    f"an index of a .swap log is damaged: {error.problem}",
                    expected=error.expected or "entries that ascend, of this log",
                    found=error.found or "others",
                    where=f"{directory}/{error.where}",
                ) from None


def _refused(problem: str, *, expected: str, found: str, where: str) -> CorruptLogError:
    return CorruptLogError(problem, expected=expected, found=found, where=where, hint=_HINT)
