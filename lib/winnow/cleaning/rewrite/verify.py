"""Verify: read a staged segment back from the disk before it may replace anything.

The check is independent of the rewrite. Headers are walked and CRCs computed again. The indexes are
compared with indexes built from what was read, not from what was meant to be written. The
transaction index is compared with the markers that were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError, VerificationError
from winnow.logdir.batches import end_of, read_batches
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX
from winnow.storage.file_tree import PIECE_BYTES
from winnow.storage.places import Places
from winnow.storage.segment_io import PacedPlaces, drop_cached
from winnow.storage.urls import is_remote
from winnow.survey.gather import control_columns, decode_aborted
from winnow.wire.batch import BATCH, CONTROL, DELETE_HORIZON, MAX_OFFSET_SPAN, bits_of
from winnow.wire.buffers import Array
from winnow.wire.control import ControlType
from winnow.wire.crc import crc32c_extended
from winnow.wire.walk import first_bad_crc

_PIECE_BYTES = 2 * 2**20
"""Bytes of a segment that are read at once: they fit into a processor's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What a staged segment must be. Sizes in bytes."""

    base_offset: int
    end_offset: int
    """No offset of it is as high."""
    log_bytes: int
    records: int
    """As headers count them: -1 in each batch of v0 and v1."""
    index_interval_bytes: int
    segment_index_bytes: int
    same_txn_index: bytes | None = None
    """The transaction index must be these bytes, or missing: no transaction has changed."""
    without_horizons: bytes | None = None
    """No batch can get a delete horizon (`winnow.java_long`), so a marker without an entry has
    none; the transaction index must be these bytes.
    """


def verify_staged(paths: Mapping[str, str], meant: Meant) -> Mapping[str, int]:
    """Return the CRC-32C of each file by suffix, as read back from the disk.

    Raises VerificationError unless the files hold what is meant, in sound batches. Offsets must
    ascend within [base_offset, end_offset). Each CRC must match. Both indexes must match the log on
    the disk. Every entry of the transaction index must have its ABORT marker. A marker without an
    entry belongs to a transaction without remaining data: it must have a delete horizon (S5.8).
    """
    path = paths[LOG]
    for part in paths.values():
        drop_cached(part)
    Places().read_ahead(paths.values())
    size = Places().entry(path).size
    if size != meant.log_bytes:
        raise _mismatch("bytes in the staged log", meant.log_bytes, size, path)
    index = IndexBuilder(
        base_offset=meant.base_offset,
        index_interval_bytes=meant.index_interval_bytes,
        max_index_bytes=meant.segment_index_bytes,
    )
    found, checksum, last_offset = 0, 0, meant.base_offset - 1
    markers = [np.empty(0, BATCH)]
    # Read from a server, each piece costs a request.
    piece_bytes = PIECE_BYTES if is_remote(path) else _PIECE_BYTES
    with _as_verification(path):
        for piece in read_batches(
            PacedPlaces(), path, size=size, least_offset=meant.base_offset, piece_bytes=piece_bytes
        ):
            data, rows = piece.data, piece.rows
            wrong = first_bad_crc(data, rows)
            if wrong >= 0:
                raise VerificationError(
                    "a batch of the staged log does not match its CRC",
                    where=f"{path} at byte {piece.position(wrong)}",
                    hint="The disk or the memory of this machine may be failing.",
                )
            end = end_of(rows[-1])
            checksum = crc32c_extended(checksum, data[: end.position])
            last_offset = end.next_offset - 1
            found += int(rows["record_count"].sum(dtype=np.int64))
            if meant.same_txn_index is None and bits_of(rows) & CONTROL:
                types = control_columns(data, rows, path).type
                control = rows[(rows["attributes"] & CONTROL) != 0]
                markers.append(control[types == ControlType.ABORT])
            index.append(rows, piece.start)
    if found != meant.records:
        raise _mismatch("records in the staged log", meant.records, found, path)
    if last_offset >= meant.end_offset or last_offset - meant.base_offset > MAX_OFFSET_SPAN:
        raise _mismatch("the staged log's last offset below", meant.end_offset, last_offset, path)
    contents = {
        suffix: Places().read_bytes(part) for suffix, part in paths.items() if suffix != LOG
    }
    for suffix, wanted in zip((INDEX, TIMEINDEX), index.finish(), strict=True):
        if contents[suffix] != wanted:
            raise VerificationError(
                "the staged index does not match the staged log",
                where=paths[suffix],
                hint="Run again.",
            )
    staged, where = contents.get(TXNINDEX, b""), paths.get(TXNINDEX, path)
    same = meant.without_horizons if meant.same_txn_index is None else meant.same_txn_index
    if same is not None and staged != same:
        raise _mismatch("bytes of the transaction index", len(same), len(staged), where)
    if meant.same_txn_index is None:
        _check_txn_index(contents.get(TXNINDEX), where, np.concatenate(markers), meant)
    return {LOG: checksum} | {
        suffix: crc32c_extended(0, content) for suffix, content in contents.items()
    }


@contextmanager
def _as_verification(path: str) -> Iterator[None]:
    try:
        yield
    except CorruptLogError as error:
        where = None if path in str(error) else path
        raise VerificationError(str(error), where=where, hint="Run again.") from error


def _check_txn_index(data: bytes | None, path: str, markers: Array, meant: Meant) -> None:
    """Compare the transaction index with the markers. One without a horizon must have an entry."""
    with _as_verification(path):
        entries = decode_aborted(data or b"", path, meant.base_offset, meant.end_offset)
    ends = set(entries[["last_offset", "producer_id"]].tolist())
    found = set(markers[["base_offset", "producer_id"]].tolist())
    bare = markers[(markers["attributes"] & DELETE_HORIZON) == 0]
    needed = set(bare[["base_offset", "producer_id"]].tolist())
    if meant.without_horizons is not None:
        needed = set()
    if not needed <= ends <= found or (data is not None and not ends):
        wrong = min(needed - ends, default=None) or min(ends - found, default=None)
        raise VerificationError(
            "the staged transaction index does not match the staged log",
            expected=f"one entry for each of {len(needed)} ABORT markers",
            found=f"{len(ends)} entries"
            + (f"; offset and producer {wrong} differ" if wrong else ""),
            where=path,
            hint="Run again.",
        )


def _mismatch(what: str, wanted: int, found: int, path: str) -> VerificationError:
    return VerificationError(
        what, expected=str(wanted), found=str(found), where=path, hint="Run again."
    )
