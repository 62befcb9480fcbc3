"""The plain twins of the kernels for indexes, small files and splits."""

from __future__ import annotations

import os
from collections.abc import Sequence

from winnow.scan.cut import DENSEST
from winnow.storage.small_files import _FLAGS
from winnow.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_V2_SIZE,
    MAX_MAGIC,
    TRANSACTIONAL,
    is_wrapper,
)
from winnow.wire.buffers import Array, Rows
from winnow.wire.kernels.record import SMALLEST_RECORD


def index_plain(batches: Array, *, base_offset: int, interval: int) -> tuple[bytes, bytes]:
    """Build both index files of a whole segment, slow and obvious: the twin of `IndexBuilder`."""
    index, timeindex = bytearray(), bytearray()
    counter, largest, entered = 0, (-1, -1), -1
    for batch in batches:
        if batch["max_timestamp"] > largest[0]:
            largest = (int(batch["max_timestamp"]), int(batch["last_offset"]))
        if counter > interval:
            index += (int(batch["last_offset"]) - base_offset).to_bytes(4) + int(
                batch["position"]
            ).to_bytes(4)
            if largest[0] > entered:
                timeindex += largest[0].to_bytes(8) + (largest[1] - base_offset).to_bytes(4)
                entered = largest[0]
            counter = 0
        counter += int(batch["size"])
    if largest[0] > entered:
        timeindex += largest[0].to_bytes(8) + (largest[1] - base_offset).to_bytes(4)
    return bytes(index), bytes(timeindex)


def read_small_files_plain(directory: int, names: Sequence[str], most: int) -> list[bytes]:
    """The plain twin of `read_small_files`, for files that can be read."""
    heads = []
    for name in names:
        file = os.open(name, _FLAGS, dir_fd=directory)
        heads.append(os.read(file, most))
        os.close(file)
    return heads


def sum_up_plain(
    rows: Rows, *, split_bytes: int, split_records: int, start: int, in_split: int, plain: bool
) -> tuple[int, list[tuple[int, int, bool]], tuple[int, int, bool], int, tuple[bool, bool]]:
    """The plain twin of `sum_up`: wild row or -1, cuts, (start, in_split, plain), records,
    (legacy, guessed).
    """
    wrappers = is_wrapper(rows).tolist()
    counts = [
        int(row["record_count"])
        if row["magic"] == MAX_MAGIC
        else int(row["size"]) // 34 + 1
        if wrapper
        else 1
        for row, wrapper in zip(rows, wrappers, strict=True)
    ]
    cuts: list[tuple[int, int, bool]] = []
    records, legacy, guessed = 0, False, False
    for i, row in enumerate(rows):
        if row["magic"] == MAX_MAGIC:
            densest = int(DENSEST[row["attributes"] & CODEC_MASK])
            if counts[i] > min(
                int(row["last_offset"] - row["base_offset"]) + 1,
                int(row["size"] - HEADER_V2_SIZE) * densest // SMALLEST_RECORD,
            ):
                return i, cuts, (start, in_split, plain), records, (legacy, guessed)
        else:
            legacy, guessed = True, guessed or wrappers[i]
        plain = (
            plain
            and row["magic"] == MAX_MAGIC
            and not row["attributes"] & (TRANSACTIONAL | CONTROL)
        )
        records, in_split = records + counts[i], in_split + counts[i]
        end = int(row["position"] + row["size"])
        if end - start >= split_bytes or in_split >= split_records:
            cuts.append((i, in_split, bool(plain)))
            start, in_split, plain = end, 0, True
    return -1, cuts, (start, in_split, bool(plain)), records, (legacy, guessed)
