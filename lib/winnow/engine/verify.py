"""Verify: read a staged segment back from the disk before it may replace anything.

An independent path: headers are walked and CRCs computed anew, and the indexes are compared with ones that are built
from what was read, not from what was meant to be written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from winnow.engine.chunks import next_offset
from winnow.errors import CorruptLogError, VerificationError
from winnow.logdir.index import IndexBuilder
from winnow.logdir.names import INDEX, LOG, TIMEINDEX
from winnow.storage.segment_io import drop_cached, map_range
from winnow.wire.batch import BATCH, MAX_OFFSET_SPAN
from winnow.wire.walk import WalkStatus, describe, first_bad_crc, walk_batches

_ROWS = 65_536


def verify_staged(
    paths: Mapping[str, str],
    *,
    base_offset: int,
    end_offset: int,
    log_bytes: int,
    records: int,
    index_interval_bytes: int,
    segment_index_bytes: int,
) -> None:
    """Raises VerificationError unless the files hold `records` records in `log_bytes` bytes of sound batches.

    Offsets must ascend within [base_offset, end_offset), each CRC must match, and both indexes must be those of the
    log as it is on the disk.
    """
    path = paths[LOG]
    for part in paths.values():
        drop_cached(part)
    size = os.stat(path).st_size
    if size != log_bytes:
        raise _mismatch("bytes in the staged log", log_bytes, size, path)
    index = IndexBuilder(
        base_offset=base_offset, index_interval_bytes=index_interval_bytes, max_index_bytes=segment_index_bytes
    )
    rows = np.empty(_ROWS, BATCH)
    position, least_offset, found = 0, base_offset, 0
    with map_range(path, 0, size) as buf:
        status = WalkStatus.FULL
        while status == WalkStatus.FULL:
            count, position, status = walk_batches(buf, position, least_offset, rows)
            if status not in (WalkStatus.FULL, WalkStatus.END):
                after = next_offset(rows[:count], least_offset)
                raise VerificationError(str(describe(status, buf, position, least_offset=after, file_name=path)))
            if not count:
                break
            seen = rows[:count]
            wrong = first_bad_crc(buf, seen)
            if wrong >= 0:
                raise VerificationError(
                    "a batch of the staged log does not match its CRC",
                    where=f"{path} at byte {int(seen['position'][wrong])}",
                    hint="The disk or the memory of this machine may be failing.",
                )
            found += int(seen["record_count"].astype(np.int64).sum())
            least_offset = int(seen["last_offset"][-1]) + 1
            try:
                index.append(seen)
            except CorruptLogError as error:
                raise VerificationError(str(error), where=path, hint="Run again.") from error
    if found != records:
        raise _mismatch("records in the staged log", records, found, path)
    if least_offset > end_offset or least_offset - 1 - base_offset > MAX_OFFSET_SPAN:
        raise _mismatch("the staged log's last offset below", end_offset, least_offset - 1, path)
    for suffix, wanted in zip((INDEX, TIMEINDEX), index.finish(), strict=True):
        with open(paths[suffix], "rb") as file:
            if file.read() != wanted:
                raise VerificationError(
                    "the staged index is not that of the staged log", where=paths[suffix], hint="Run again."
                )


def _mismatch(what: str, wanted: int, found: int, path: str) -> VerificationError:
    return VerificationError(what, expected=str(wanted), found=str(found), where=path, hint="Run again.")
