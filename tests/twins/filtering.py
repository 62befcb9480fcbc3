"""The twin of `filtering.filter_batches`: the rules of S5.5 to S5.7, written again record by
record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.twins.encoding import encode_batch
from tests.twins.legacy import legacy_records
from winnow.java_long import delete_horizon
from winnow.wire.batch import (
    BATCH,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAX_MAGIC,
    TRANSACTIONAL,
    Codec,
)
from winnow.wire.buffers import Rows, as_bytes
from winnow.wire.choice import Era, Retention
from winnow.wire.filtering import LATEST, Filtered
from winnow.wire.plain import Record, read_records, walk_batches
from winnow.wire.records import record_total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.buffers import RecordBlocks


def filter_batches_plain(
    blocks: RecordBlocks,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    *,
    now: int,
    delete_retention_ms: int,
    horizon_cause: NDArray[np.bool_] | None = None,
    era: Era = LATEST,
) -> Filtered:
    """As `filter_batches`."""
    total = record_total(blocks)
    out: list[bytes] = []
    tombstones: list[int] = []
    counts = dict.fromkeys(("records_out", "copied", "rewritten", "emptied", "dropped"), 0)
    decided = 0
    for i, row in enumerate(blocks.rows):
        mine = keep[decided : decided + int(row["record_count"])]
        decided += len(mine)
        if retention[i] == Retention.DELETE:
            counts["dropped"] += 1
            continue
        legacy = row["magic"] < MAX_MAGIC
        if len(mine) and not mine.any():
            records = []
            retained = []
        else:
            records = (
                legacy_records(blocks.raw, row) if legacy else read_records(blocks.area(i), row)
            )
            retained = [
                r
                for r, stays in zip(records, mine, strict=True)
                if stays and not (era.horizons and _expired(r, row, now))
            ]
        of_segment = legacy or not (era.horizons or int(row["attributes"]) & CONTROL)
        if of_segment and not era.keep_deletes:
            retained = [r for r in retained if r.value is not None]
        nulls = sum(r.value is None for r in retained)
        counts["records_out"] += len(retained)
        has_horizon = era.horizons and bool(int(row["attributes"]) & DELETE_HORIZON)
        needs_horizon = (era.horizons and not has_horizon) and (
            nulls > 0 or (horizon_cause is not None and bool(horizon_cause[i]))
        )
        if not retained and retention[i] == Retention.RETAIN_EMPTY:
            counts["emptied"] += 1
            out.append(encode_batch([], max_timestamp=int(row["max_timestamp"]), **_identity(row)))
        elif not retained:
            counts["dropped"] += 1
        elif len(retained) == len(records) and not needs_horizon and not legacy:
            counts["copied"] += 1
            start = int(row["position"])
            out.append(blocks.raw[start : start + int(row["size"])].tobytes())
        else:
            counts["rewritten"] += 1
            horizon = delete_horizon(now, delete_retention_ms) if needs_horizon else None
            if has_horizon and row["base_timestamp"] >= 0:
                horizon = int(row["base_timestamp"])
            out.append(_rewritten(retained, row, horizon))
        if len(out) > len(tombstones):
            tombstones.append(nulls)
    data = as_bytes(b"".join(out))
    return Filtered(
        data=data,
        batches=_headers(data, out),
        records_in=total,
        tombstones=np.array(tombstones, np.int32),
        **counts,
    )


def _expired(record: Record, row: np.void, now: int) -> bool:
    bits = int(row["attributes"])
    return (
        record.value is None
        and bool(bits & DELETE_HORIZON)
        and not bits & CONTROL
        and now >= row["base_timestamp"]
    )


def _identity(row: np.void) -> dict[str, Any]:
    """What of a header survives every rewriting."""
    bits = int(row["attributes"])
    return {
        "base_offset": int(row["base_offset"]),
        "last_offset": int(row["last_offset"]),
        "leader_epoch": int(row["leader_epoch"]),
        "producer_id": int(row["producer_id"]),
        "producer_epoch": int(row["producer_epoch"]),
        "base_sequence": int(row["base_sequence"]),
        "transactional": bool(bits & TRANSACTIONAL),
        "control": bool(bits & CONTROL),
        "log_append_time": int(row["max_timestamp"]) if bits & LOG_APPEND_TIME else None,
    }


def _rewritten(retained: list[Record], row: np.void, horizon: int | None) -> bytes:
    codec = Codec(int(row["attributes"]) & CODEC_MASK)
    identity = _identity(row)
    if row["magic"] < MAX_MAGIC:
        identity |= {"base_offset": retained[0].offset, "last_offset": retained[-1].offset}
        if identity["log_append_time"] is not None:  # not that of records of v0 in a wrapper of v1
            identity |= {
                "log_append_time": retained[0].timestamp,
                "max_timestamp": int(row["max_timestamp"]),
            }
    return encode_batch(retained, codec=codec, delete_horizon=horizon, **identity)


def _headers(data: NDArray[np.uint8], out: list[bytes]) -> Rows:
    rows = np.zeros(len(out), BATCH)
    at = 0
    for i, batch in enumerate(out):
        walk_batches(data, at, 0, rows[i : i + 1])
        at += len(batch)
    return rows
