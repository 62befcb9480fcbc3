"""Who holds Kafka's own topics: the groups and transactional ids whose records fill a segment.

Counted where the bytes of a segment are in memory anyway, by the walk and after a rewrite, and added up by the driver.
The keys of any other topic are nobody's business and are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from winnow.engine.result import Holder
from winnow.errors import CorruptLogError
from winnow.storage.segment_io import Bytes, release
from winnow.wire.batch import BATCH, CODEC_MASK
from winnow.wire.inflate import inflate_parts
from winnow.wire.internal_topics import INTERNAL_TOPICS
from winnow.wire.names import count_names
from winnow.wire.records import crc_error
from winnow.wire.walk import WalkStatus, first_bad_crc, walk_batches

SHOWN = 5
MOST_NAMES = 16_384
"""Of one segment: beyond them those with the fewest bytes are forgotten, so that a walk stays small."""
_CHUNK_BYTES = 8 * 2**20
_MOST_BYTES = 32 * 2**20
"""Of a batch, and of those before it in a part, when decompressed. No broker writes such batches to these topics."""
_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class Holdings:
    """Records and bytes on disk by name, of one segment."""

    by_name: Mapping[bytes, tuple[int, int]]
    complete: bool = True
    """No name was forgotten."""


def holdings_of(buf: Bytes, base_offset: int, topic: str) -> Holdings | None:
    """Of a whole log that was walked before; None for a topic that is not Kafka's own and for records that are damaged.

    Damage is the business of those who clean: they read the records again, and refuse the partition.
    """
    if topic not in INTERNAL_TOPICS:
        return None
    sums: dict[bytes, tuple[int, int]] = {}
    complete = True
    try:
        for rows in _chunks(buf, base_offset):
            for blocks in inflate_parts(buf, rows, limit=_MOST_BYTES, enough=_MOST_BYTES):
                counts, all_of_them = count_names(blocks, blocks.rows, topic, most=MOST_NAMES)
                complete &= all_of_them
                figures = zip(counts.names, counts.records.tolist(), counts.bytes.tolist(), strict=True)
                _add(sums, ((name, (records, size)) for name, records, size in figures))
            release(buf, int(rows["position"][-1]))
    except CorruptLogError:
        return None
    if len(sums) > MOST_NAMES:
        complete = False
        sums = dict(sorted(sums.items(), key=lambda item: -item[1][1])[:MOST_NAMES])
    return Holdings(sums, complete)


def added(parts: Sequence[Holdings | None]) -> Holdings | None:
    """Of a log, from those of the parts that it consists of."""
    sums = _summed(parts)
    return None if sums is None else Holdings(sums, all(part is not None and part.complete for part in parts))


def top_holders(
    before: Sequence[Holdings | None], after: Sequence[Holdings | None] | None
) -> tuple[tuple[Holder, ...], int | None]:
    """Those with the most bytes before, and how many there are; None if that, or all of it, is not known.

    Of the segments `before` a run and `after` it, which is None where nothing is known of it yet.
    """
    sums = _summed(before)
    if not sums:
        return (), None
    left = None if after is None else _summed(after)
    most = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))[:SHOWN]
    holders = []
    for name, (records, size) in most:
        records_after, bytes_after = (None, None) if left is None else left.get(name, (0, 0))
        holders.append(
            Holder(
                name=name.decode("utf-8", "backslashreplace"),
                records_before=records,
                bytes_before=size,
                records_after=records_after,
                bytes_after=bytes_after,
            )
        )
    complete = all(one is not None and one.complete for one in before)
    return tuple(holders), len(sums) if complete else None


def _chunks(buf: Bytes, base_offset: int) -> Iterable[np.ndarray[tuple[int], np.dtype[np.void]]]:
    """BATCH rows, so many that little is decompressed at once; what is compressed is sound."""
    position, least_offset, status = 0, base_offset, WalkStatus.FULL
    rows = np.empty(_ROWS, BATCH)
    while status is WalkStatus.FULL:
        count, position, status = walk_batches(buf, position, least_offset, rows)
        if not count:
            return
        seen = rows[:count]
        least_offset = int(seen["last_offset"][-1]) + 1
        compressed = seen[(seen["attributes"] & CODEC_MASK) != 0]
        wrong = first_bad_crc(buf, compressed)
        if wrong >= 0:
            raise crc_error(compressed[wrong])
        ends = seen["position"] + seen["size"]
        first = 0
        while first < count:
            last = max(first + 1, int(np.searchsorted(ends, seen["position"][first] + _CHUNK_BYTES, side="right")))
            yield seen[first:last]
            first = last


def _summed(holdings: Iterable[Holdings | None]) -> dict[bytes, tuple[int, int]] | None:
    sums: dict[bytes, tuple[int, int]] = {}
    for one in holdings:
        if one is None:
            return None
        _add(sums, one.by_name.items())
    return sums


def _add(sums: dict[bytes, tuple[int, int]], figures: Iterable[tuple[bytes, tuple[int, int]]]) -> None:
    for name, (records, size) in figures:
        so_far = sums.get(name, (0, 0))
        sums[name] = (so_far[0] + records, so_far[1] + size)
