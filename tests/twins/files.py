"""The plain twins of the kernels for indexes, small files and splits."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tests.twins.headers import bits_of_plain
from winnow.logdir.indexes.index import Array
from winnow.scan.chunks import counted
from winnow.scan.cut import _most_records
from winnow.storage.small_files import _FLAGS
from winnow.wire.batch import CONTROL, MAX_MAGIC, TRANSACTIONAL, is_wrapper
from winnow.wire.buffers import Rows


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
) -> tuple[int, list[tuple[int, int, int, bool]], tuple[int, int, bool], int, tuple[bool, bool]]:
    """The plain twin of `sum_up`: wild row or -1, cuts, (start, in_split, plain), records,
    (legacy, guessed).
    """
    counts, wrappers = counted(rows, bits_of_plain(rows)).tolist(), is_wrapper(rows).tolist()
    cuts: list[tuple[int, int, int, bool]] = []
    records, legacy, guessed = 0, False, False
    for i, row in enumerate(rows):
        if row["magic"] == MAX_MAGIC:
            if counts[i] > _most_records(row):
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
            cuts.append((i, end, in_split, bool(plain)))
            start, in_split, plain = end, 0, True
    return -1, cuts, (start, in_split, bool(plain)), records, (legacy, guessed)
