"""What must hold for batches of any formats: of the kernels alone, and between them and their plain
twins.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.targets.base import LIMIT, require, same_outcome
from fuzz.targets.columns import check_columns
from tests.twins.filtering import filter_batches_plain
from tests.twins.legacy import legacy_records
from tests.twins.records import (
    count_names_plain,
    decode_control_plain,
    first_fault_plain,
    scan_records_plain,
)
from tests.unit.wire.logs import NOW
from winnow.errors import CorruptLogError
from winnow.wire.batch import BATCH, CONTROL, MAX_MAGIC, WalkStatus
from winnow.wire.buffers import Bytes, RecordBlocks, Rows
from winnow.wire.choice import Era
from winnow.wire.control_records import decode_control
from winnow.wire.filtering import Filtered, filter_batches, filter_in_cache
from winnow.wire.inflate import closed, inflate
from winnow.wire.internal_topics import CONSUMER_OFFSETS
from winnow.wire.names import count_names
from winnow.wire.plain import read_records
from winnow.wire.plain import walk_batches as walk_batches_plain
from winnow.wire.record_checks import check_records
from winnow.wire.record_faults import Fault
from winnow.wire.records import RecordColumns, scan_in_cache, scan_records
from winnow.wire.walk import describe, first_bad_crc, walk_batches

SECRET = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
_ROWS = 64
_COLUMNS = ("hash", "offset", "null_key", "null_value", "batch")
_COUNTS = ("records_in", "records_out", "copied", "rewritten", "emptied", "dropped")
_UNSCANNED = {Fault.NONE, Fault.MAX_TIMESTAMP}
"""What verifying may find in batches that scanning accepts."""


def walked(buf: Bytes, start: int = 0, least_offset: int = 0, *, twins: bool = True) -> Rows:
    """All batches, as the kernel and its twin have them. Raises CorruptLogError unless they fill
    the bytes.
    """
    out = np.zeros(_ROWS, BATCH)
    found = walk_batches(buf, start, least_offset, out)
    count, position, status = found
    if twins:
        twin = np.zeros(_ROWS, BATCH)
        require(
            found == walk_batches_plain(buf, start, least_offset, twin), f"walks differ: {found}"
        )
        require(bool((out[:count] == twin[:count]).all()), "rows of the walks differ")
    require(0 <= position <= len(buf) or start > len(buf), "the walk left the bytes")
    if status not in (WalkStatus.FULL, WalkStatus.END):
        raise describe(status, buf, position, least_offset=least_offset, file_name="fuzz")
    return out[:count]


def check_batches(buf: Bytes, rows: Rows, rng: random.Random, *, twins: bool) -> None:
    """Batches with a right CRC: readable ones can be filtered, and records to keep are kept."""
    blocks = _inflated(buf, rows) if twins else inflate(buf, rows, limit=LIMIT)
    rows = blocks.rows
    columns = _scanned(blocks) if twins else scan_records(blocks, SECRET, check_crc=True)
    _check_sums(blocks, columns.hash, twins=twins)
    check_columns(blocks, twins=twins)
    keep = np.array([rng.random() < 0.6 for _ in range(len(columns.hash))], np.bool_)
    keep |= np.repeat((rows["attributes"] & CONTROL) != 0, rows["record_count"])
    retention = np.array([rng.randrange(3) for _ in range(len(rows))], np.int8)
    cause = np.array([rng.random() < 0.2 for _ in range(len(rows))], np.bool_)
    settings = {
        "now": NOW,
        "delete_retention_ms": 1000,
        "horizon_cause": cause,
        "era": Era(
            horizons=rng.random() < 0.7,
            converts=twins or rng.random() < 0.5,  # the twin writes v2 only
            keep_deletes=rng.random() < 0.5,
        ),
    }
    if not twins:
        _check_sound(filter_batches(blocks, keep, retention, **settings))
        return
    for kept, which in ((keep, retention), (np.ones_like(keep), np.ones_like(retention))):
        filtered = same_outcome(
            lambda kept=kept, which=which: filter_batches(blocks, kept, which, **settings),
            lambda kept=kept, which=which: filter_batches_plain(blocks, kept, which, **settings),
            "filter",
        )
        if filtered is not None:
            _check_same(*filtered)
            _check_sound(filtered[0])
        if len(rows) and (rows["magic"] == MAX_MAGIC).all():
            _check_in_cache(buf, blocks, kept, which, settings, refused=filtered is None)


def _check_in_cache(
    buf: Bytes,
    blocks: RecordBlocks,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    settings: dict[str, Any],
    *,
    refused: bool,
) -> None:
    """Batches that are processed one by one come out as they do together, unless these are
    `refused`.
    """
    rows = blocks.rows
    leading = scan_in_cache(closed(buf, rows), SECRET, limit=LIMIT)
    if leading is not None:
        columns, count = leading
        together = scan_records(blocks.some(slice(count)), SECRET)
        for name in _COLUMNS:
            same = bool((getattr(columns, name) == getattr(together, name)).all())
            require(same, f"scans in the cache differ in {name}")
    try:
        one = filter_in_cache(closed(buf, rows), keep, retention, **settings, limit=LIMIT)
    except CorruptLogError:
        require(refused, "only the filter in the cache refuses")
        return
    if one is not None:
        some = slice(one.batches_in)
        cause = {"horizon_cause": settings["horizon_cause"][some]}
        kept = keep[: one.records_in]
        _check_same(
            one, filter_batches(blocks.some(some), kept, retention[some], **settings | cause)
        )


def _inflated(buf: Bytes, rows: Rows) -> RecordBlocks:
    """The twin of the conversion takes one batch at a time: whatever it refuses, and each record,
    must be the same.
    """
    for i in np.flatnonzero(rows["magic"] < MAX_MAGIC).tolist():
        both = same_outcome(
            lambda i=i: inflate(buf, rows[i : i + 1], limit=LIMIT),
            lambda i=i: legacy_records(buf, rows[i], limit=LIMIT),
            "conversion",
        )
        if both is None:
            raise CorruptLogError("v0 or v1 can't be read")
        blocks, records = both
        require(
            read_records(blocks.area(0), blocks.rows[0]) == records,
            "conversion differs from its twin",
        )
    return inflate(buf, rows, limit=LIMIT)


def _scanned(blocks: RecordBlocks) -> RecordColumns:
    both: tuple[RecordColumns, RecordColumns] | None = same_outcome(
        lambda: scan_records(blocks, SECRET, check_crc=True),
        lambda: scan_records_plain(blocks, SECRET, check_crc=True),
        "scan",
    )
    if both is None:
        raise CorruptLogError("records can't be read")
    for name in _COLUMNS:
        require(
            bool((getattr(both[0], name) == getattr(both[1], name)).all()),
            f"scans differ in {name}",
        )
    if (blocks.rows["magic"] == MAX_MAGIC).all():
        _check_control(blocks)
    return both[0]


def _check_control(blocks: RecordBlocks) -> None:
    """What its twin can read of control batches, the kernel reads alike; the twin is the stricter
    one.
    """
    chosen = np.flatnonzero((blocks.rows["attributes"] & CONTROL) != 0)
    for i in chosen.tolist():
        one = blocks.some(slice(i, i + 1))
        both = same_outcome(
            lambda one=one: decode_control(one),
            lambda one=one: decode_control_plain(one),
            "control",
        )
        if both is not None:
            for name in ("type", "coordinator_epoch", "timestamp"):
                require(
                    bool((getattr(both[0], name) == getattr(both[1], name)).all()),
                    f"control differs in {name}",
                )


def _check_sums(blocks: RecordBlocks, hashes: NDArray[np.uint64], *, twins: bool) -> None:
    """What verifying and reporting make of records that can be read."""
    faults = check_records(blocks).fault.tolist()
    require(_UNSCANNED.issuperset(faults), f"records that were scanned are judged {faults}")
    counts, _ = count_names(blocks, CONSUMER_OFFSETS, most=1 << 20)
    again, _ = count_names(blocks, CONSUMER_OFFSETS, most=1 << 20, hashes=hashes)
    same = counts.names == again.names and bool(
        (counts.records == again.records).all() and (counts.bytes == again.bytes).all()
    )
    require(same, "names are counted differently where keys are known")
    if not twins:
        return
    for i, fault in enumerate(faults):
        require(
            (fault == 0) == (first_fault_plain(blocks, i) is None),
            f"records of batch {i} are judged differently",
        )
    figures = zip(counts.records.tolist(), counts.bytes.tolist(), strict=True)
    found = dict(zip(counts.names, figures, strict=True))
    require(
        found == count_names_plain(blocks, CONSUMER_OFFSETS),
        "names are counted differently",
    )


def _check_same(mine: Filtered, twin: Filtered) -> None:
    require(bytes(mine.data) == bytes(twin.data), "filters differ in their bytes")
    found, wanted = ([getattr(one, name) for name in _COUNTS] for one in (mine, twin))
    require(found == wanted, f"filters differ: {found} and {wanted}")
    require(
        mine.tombstones.tolist() == twin.tombstones.tolist(), "filters differ in their tombstones"
    )


def _check_sound(filtered: Filtered) -> None:
    """What was filtered can be read again, and has as many records as it says."""
    rows = np.zeros(_ROWS, BATCH)
    count, position, status = walk_batches(filtered.data, 0, 0, rows)
    whole = (position, status) == (len(filtered.data), WalkStatus.END)
    require(whole, f"what was filtered can't be walked: {status.name}")
    require(
        bool((rows[:count] == filtered.batches).all()),
        "rows of what was filtered are not those of its bytes",
    )
    require(first_bad_crc(filtered.data, rows[:count]) < 0, "what was filtered has a wrong CRC")
    again = inflate(filtered.data, rows[:count], limit=4 * LIMIT)
    records = len(scan_records(again, SECRET).hash)
    require(records == filtered.records_out, "records of what was filtered were lost")
