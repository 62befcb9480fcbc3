"""Read the records of many batches as columns: offsets, timestamps, and the places of their bytes.

There are two steps, so that nothing is copied needlessly. `record_places` parses. `gathered` copies
the keys (values, headers' names, ...) of the chosen records into what Arrow calls a binary array.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING

import numpy as np

from winnow.errors import CorruptLogError
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.column import gather, locate, locate_headers
from winnow.wire.record_faults import check_fault
from winnow.wire.records import record_total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.inflate import RecordBlocks

MOST_BYTES = 2**31 - 1
"""Maximum that the int32 offsets of a binary array can count."""


class Part(Flag):
    """Parts of records to locate besides their offsets and timestamps."""

    NONE = 0
    KEY = auto()
    VALUE = auto()
    HEADERS = auto()
    ALL = KEY | VALUE | HEADERS


@dataclass(frozen=True, slots=True)
class Places:
    """Byte strings inside the areas of batches, one item each."""

    batch: NDArray[np.int32]
    """Row of the batch."""
    at: NDArray[np.int64]
    """Position in `inflated` or `raw` (see `RecordBlocks`)."""
    size: NDArray[np.int32]
    """Bytes; -1 for null."""

    def __len__(self) -> int:
        return len(self.size)

    def __getitem__(self, chosen: NDArray[np.int64]) -> Places:
        return Places(self.batch[chosen], self.at[chosen], self.size[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlaces:
    """One item per record, in file order over all batches. Parts not requested are empty."""

    batch: NDArray[np.int32]
    """Row of the batch."""
    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    """ms; that of the batch if the broker set it."""
    key: Places
    value: Places
    headers: Places
    """`size` is a number of headers, not of bytes."""

    def __len__(self) -> int:
        return len(self.offset)

    def __getitem__(self, chosen: NDArray[np.int64]) -> RecordPlaces:
        return RecordPlaces(
            batch=self.batch[chosen],
            offset=self.offset[chosen],
            timestamp=self.timestamp[chosen],
            key=self.key[chosen] if len(self.key) else self.key,
            value=self.value[chosen] if len(self.value) else self.value,
            headers=self.headers[chosen] if len(self.headers) else self.headers,
        )


def record_places(blocks: RecordBlocks, parts: Part = Part.ALL) -> RecordPlaces:
    """Parse all records. `parts`: what to locate.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2.
    """
    rows = blocks.rows
    n = record_total(blocks)
    batch, offset, timestamp = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
    key, value, headers = (
        _room(batch, n if part in parts else 0) for part in (Part.KEY, Part.VALUE, Part.HEADERS)
    )
    found = locate(
        *blocks.areas,
        rows,
        batch,
        offset,
        timestamp,
        *(array for part in (key, value, headers) for array in (part.at, part.size)),
    )
    check_fault(found, rows, blocks.begin)
    return RecordPlaces(
        batch=batch, offset=offset, timestamp=timestamp, key=key, value=value, headers=headers
    )


def _room(batch: NDArray[np.int32], n: int) -> Places:
    return Places(batch[:n], np.empty(n, np.int64), np.empty(n, np.int32))


def header_places(blocks: RecordBlocks, headers: Places) -> tuple[Places, Places]:
    """Return all headers' keys and values, record by record. `headers`: `RecordPlaces.headers`."""
    n = int(headers.size.sum())
    batch = np.empty(n, np.int32)
    key, value = (Places(batch, np.empty(n, np.int64), np.empty(n, np.int32)) for _ in range(2))
    fault = locate_headers(
        blocks.raw,
        blocks.inflated,
        blocks.compressed,
        headers.batch,
        headers.at,
        headers.size,
        batch,
        key.at,
        key.size,
        value.at,
        value.size,
    )
    if fault:
        raise ValueError("these headers are not those of these batches")
    return key, value


def gathered(blocks: RecordBlocks, places: Places) -> tuple[NDArray[np.int32], Bytes]:
    """Return (ends, bytes): item i is bytes[ends[i] : ends[i + 1]], empty if it is null. Copies
    each byte once.

    Raises TooManyBytesError if there are more than `MOST_BYTES`.
    """
    total = int(np.maximum(places.size, 0).sum(dtype=np.int64))
    if total > MOST_BYTES:
        raise TooManyBytesError(
            "too many bytes for one array",
            expected=f"at most {MOST_BYTES}",
            found=str(total),
            where="several batches",
        )
    ends, out = np.empty(len(places.size) + 1, np.int32), np.empty(total, np.uint8)
    fault = gather(
        blocks.raw,
        blocks.inflated,
        blocks.compressed,
        places.batch,
        places.at,
        places.size,
        ends,
        out,
    )
    if fault:
        raise ValueError("these places are not in these batches")
    return ends, out


class TooManyBytesError(CorruptLogError):
    """More bytes than an Arrow array holds: retry with fewer batches; one alone is corrupt."""
