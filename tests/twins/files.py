"""The plain twins of the kernels for indexes, small files and splits."""

from __future__ import annotations

import os
from collections.abc import Sequence

from winnow.storage.small_files import _FLAGS
from winnow.wire.buffers import Array


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
