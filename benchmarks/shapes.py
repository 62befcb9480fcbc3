"""Fills new logs with records of each shape, through the log writer: the same ones for the same
seed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.batches import Cells, encode_batches
from benchmarks.cases import Case, Shape
from tests.log_writer.writer import LogWriter
from winnow.wire.buffers import Bytes, as_bytes

KEY_BYTES = 16
BATCH_BYTES = 16_384
"""Uncompressed bytes of records after which a batch ends: the usual `batch.size` of a producer."""
GROUPS, COMMITTED = 200, 10
"""Groups in an offsets partition, and partitions that each commit is of."""
_NEWEST = 0.05
"""Share of the keys that `NEWEST` updates."""
_FEW, _OF_FEW = 0.002, 0.95
"""Share of the keys, and of the updates that they get, of `FEW`."""
_FIRST_TIMESTAMP = 1_790_000_000_000
_PER_MS = 100
_RECORD_OVERHEAD = 9
_APPEND_BYTES = 1 << 18
_POOL_BYTES = 8 << 20
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_FIELDS = (
    b'"user_id":', b'"session":"', b'"amount":', b'"currency":"EUR",', b'"updated_at":"2026-09-',
    b'"status":"ACTIVE",', b'"city":"', b'"tags":["a","b"],',
)  # fmt: skip
_COMMIT = np.dtype(
    [("version", ">i2"), ("offset", ">i8"), ("epoch", ">i4"), ("metadata", ">i2"), ("time", ">i8")]
)
"""Version 3 of the value of a committed offset, without metadata."""

Batches: TypeAlias = tuple[Cells, Cells, NDArray[np.int64]]
"""Keys, values, and for each batch the number of its last record plus one."""


def fill(log: LogWriter, case: Case, raw_bytes: int, seed: int) -> int | None:
    """About so many bytes of keys and values, and an empty active segment; returns the first dirty
    offset, if any.
    """
    random = np.random.default_rng(seed)
    records = records_of(case.value_bytes, raw_bytes)
    first_dirty = None
    if case.shape is Shape.OFFSETS:
        append(log, case, _commits(random, raw_bytes))
    elif case.shape is Shape.HALF:
        keys = max(1, int(records * universe_factor(case.unique)))
        append(
            log,
            case,
            updates(random, case, (random.integers(0, keys, n) for n in pieces(case, records))),
        )
    else:
        dirty = 0 if case.shape is Shape.NOTHING else max(1, round(records * case.new))
        clean = max(1, records - dirty)
        bounds = np.cumsum([0, *pieces(case, clean)]).tolist()
        append(
            log,
            case,
            updates(
                random,
                case,
                (np.arange(first, end) for first, end in pairwise(bounds)),
                # A compacted one has a delete horizon, which this writer does not write.
                tombstones=case.tombstones if case.shape is Shape.CLEAN else 0,
            ),
        )
        log.roll()
        first_dirty = log.log_end_offset
        append(
            log,
            case,
            updates(random, case, (_updated(random, case, clean, n) for n in pieces(case, dirty))),
        )
    log.roll()
    return first_dirty


def _updated(random: np.random.Generator, case: Case, keys: int, count: int) -> NDArray[np.int64]:
    """The keys of so many updates, out of `keys`, of which the newest has the highest number."""
    if case.shape is Shape.NEWEST:
        return random.integers(keys - max(1, round(keys * _NEWEST)), keys, count)
    anyone = random.integers(0, keys, count)
    if case.shape is not Shape.FEW:
        return anyone
    step = round(1 / _FEW)
    favourite = random.integers(0, -(-keys // step), count) * step
    return np.where(random.random(count) < _OF_FEW, favourite, anyone)


def records_of(value_bytes: int, raw_bytes: int) -> int:
    """That so many bytes are enough for."""
    return raw_bytes // (value_bytes + KEY_BYTES + _RECORD_OVERHEAD)


def universe_factor(share: float) -> float:
    """The f that makes N draws from f * N keys give `share` * N distinct ones: f * (1 - exp(-1 /
    f)) = share.
    """
    low, high = 1e-9, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if middle * (1 - math.exp(-1 / middle)) < share else (low, middle)
        )
    return low


def append(log: LogWriter, case: Case, batches: Iterator[Batches]) -> None:
    for keys, values, ends in batches:
        base = log.log_end_offset
        timestamps = _timestamps(base, len(keys.size))
        log.append(
            encode_batches(
                keys, values, timestamps, ends, base_offset=base, codec=case.codec
            ).tobytes()
        )


def _timestamps(first: int, count: int) -> NDArray[np.int64]:
    """Of the records with these numbers, in ms."""
    return _FIRST_TIMESTAMP + (first + np.arange(count)) // _PER_MS


def pieces(case: Case, records: int) -> Iterator[int]:
    """Cuts so many records into appends."""
    most = _APPEND_BYTES // (case.value_bytes + KEY_BYTES)
    while records > 0:
        yield min(most, records)
        records -= most


def updates(
    random: np.random.Generator,
    case: Case,
    ids: Iterator[NDArray[np.int64]],
    *,
    tombstones: float | None = None,
) -> Iterator[Batches]:
    """JSON-like values: field names, digits and random hex, `value_bytes` on average; some are
    tombstones, as many as the case has unless said.
    """
    pool = _pool()
    share = case.tombstones if tombstones is None else tombstones
    for chosen in ids:
        n = len(chosen)
        keys = Cells(
            as_bytes(_key_of(chosen).ravel()), np.arange(n) * KEY_BYTES, np.full(n, KEY_BYTES)
        )
        sizes = case.value_bytes // 2 + random.integers(0, case.value_bytes + 1, n)
        begins = random.integers(0, len(pool) - sizes)
        values = Cells(pool, begins, np.where(random.random(n) < share, -1, sizes))
        yield keys, values, _ends(case, KEY_BYTES + np.maximum(values.size, 0) + _RECORD_OVERHEAD)


def _key_of(ids: NDArray[np.int64]) -> NDArray[np.uint8]:
    """uint8[n, KEY_BYTES]: hexadecimal digits that share no prefix."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    shifts = np.uint64(60) - np.uint64(4) * np.arange(KEY_BYTES, dtype=np.uint64)
    digits: NDArray[np.uint8] = _HEX[(mixed[:, None] >> shifts) & np.uint64(15)]
    return digits


def _ends(case: Case, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A batch ends with the record that fills it, or after as many as the case says."""
    if case.batch_records is not None:
        steps = np.arange(0, len(sizes), case.batch_records) + case.batch_records
        return np.minimum(steps, len(sizes))
    through = np.cumsum(sizes)
    ends, done = [0], 0
    while ends[-1] < len(sizes):
        ends.append(min(int(np.searchsorted(through, done + BATCH_BYTES)) + 1, len(sizes)))
        done = int(through[ends[-1] - 1])
    return np.array(ends[1:], np.int64)


def _commits(random: np.random.Generator, raw_bytes: int) -> Iterator[Batches]:
    """Each batch is one group's commit of all its partitions, as a coordinator without a linger
    appends it.
    """
    size, keys = _offset_keys()
    left = raw_bytes // ((size + _COMMIT.itemsize + _RECORD_OVERHEAD) * COMMITTED)
    done = 0
    while left > 0:
        commits = min(left, _APPEND_BYTES // ((size + _COMMIT.itemsize) * COMMITTED))
        n = commits * COMMITTED
        chosen = (
            random.integers(0, GROUPS, commits)[:, None] * COMMITTED + np.arange(COMMITTED)
        ).ravel()
        rows = np.zeros(n, _COMMIT)
        rows["version"], rows["epoch"], rows["offset"] = 3, -1, done + np.arange(n)
        rows["time"] = _timestamps(done, n)
        values = Cells(
            as_bytes(rows.view(np.uint8)),
            np.arange(n) * _COMMIT.itemsize,
            np.full(n, _COMMIT.itemsize),
        )
        yield (
            Cells(keys, chosen * size, np.full(n, size)),
            values,
            COMMITTED * np.arange(1, commits + 1),
        )
        done += n
        left -= commits


def _offset_keys() -> tuple[int, Bytes]:
    """The keys of all commits, version 1, and the size of each: group by group, in each by
    partition.
    """
    keys = [
        struct.pack(">hh9sh6si", 1, 9, b"group-%03d" % group, 6, b"orders", partition)
        for group in range(GROUPS)
        for partition in range(COMMITTED)
    ]
    return len(keys[0]), as_bytes(b"".join(keys))


@cache
def _pool() -> Bytes:
    """What values are cut out of."""
    random = np.random.default_rng(0)
    pieces, size = [], 0
    while size < _POOL_BYTES:
        field = _FIELDS[random.integers(len(_FIELDS))]
        pieces.append(field + random.bytes(6).hex().encode()[: int(random.integers(4, 12))] + b'",')
        size += len(pieces[-1])
    return as_bytes(b"".join(pieces)[:_POOL_BYTES])
