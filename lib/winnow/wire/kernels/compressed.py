"""Process compressed batches one by one. Each stays in the processor's cache until it is done.

Other code decompresses many batches before it looks at the first one. It then waits for memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.batch_memory import batch_budget
from winnow.wire.batch import CODEC_MASK, HEADER_V2_SIZE
from winnow.wire.buffers import Bytes, RecordBlocks, Rows, as_bytes, read_only
from winnow.wire.choice import REWRITE, BatchActions, Choice, Retention
from winnow.wire.kernels.c_codecs import c_function
from winnow.wire.kernels.codec import compress_payload, decompress_payload
from winnow.wire.kernels.filter import count_kept, filter_records
from winnow.wire.kernels.record import inlined, kernel
from winnow.wire.kernels.writing import GROWTH

AREA_BYTES = 2**20
"""Room for the decompressed records of one batch."""
_DONE = 0, 0, 0


class Opening(NamedTuple):
    """How a kernel decompresses batches, and where it writes their records."""

    codec: int
    """lz4 or zstd. 0: all batches are decompressed already."""
    call: tuple[int, int]
    """What `c_function` returns for that codec."""
    limit: int
    """Maximum decompressed bytes of a batch."""
    area: Bytes
    """Receives the records of one batch after the other: `RecordBlocks.inflated`, but writable."""
    ends: NDArray[np.int64]
    """Receives where these records end: `RecordBlocks.end`, but writable."""


OPENED = Opening(0, (0, 0), 0, np.empty(0, np.uint8), np.empty(0, np.int64))


def first_codec(batches: Rows) -> int:
    """Return the codec of the first compressed batch, or 0 if no batch is compressed."""
    codecs = batches["attributes"] & CODEC_MASK
    return int(codecs[np.argmax(codecs != 0)]) if len(codecs) else 0


def opening_of(closed: RecordBlocks, *, limit: int) -> tuple[RecordBlocks, Opening] | None:
    """Return blocks that a kernel decompresses itself, and how. None if their first codec has no C
    function. `closed`: v2 batches, still compressed. `limit` in bytes, per batch.
    """
    codec = first_codec(closed.rows)
    call = c_function(codec, compresses=False)
    if not call[0]:
        return None
    area, ends = np.empty(AREA_BYTES, np.uint8), closed.end.copy()
    blocks = closed._replace(inflated=as_bytes(area), end=read_only(ends))
    return blocks, Opening(codec, call, min(limit, batch_budget()), area, ends)


@inlined
def open_batch(blocks: RecordBlocks, i: int, opening: Opening) -> bool:
    """Decompress batch `i`. Return False for a batch that is not usual: damaged, of another codec
    than `opening`, or too large for it.
    """
    row = blocks.rows[i]
    if int(row.attributes) & CODEC_MASK != opening.codec:
        return False
    begin, end = row.position + HEADER_V2_SIZE, row.position + row.size
    area, most = opening.area, min(opening.limit, opening.area.size)
    size = decompress_payload(opening.codec, opening.call, blocks.raw, begin, end, area, 0, most)
    if size >= 0:
        opening.ends[i] = size
    return bool(size >= 0)


@kernel
def filter_compressed(
    choice: Choice,
    verdict: BatchActions,
    opening: Opening,
    packs: tuple[int, int],
    records: Bytes,
    payloads: Bytes,
    starts: NDArray[np.int64],
) -> tuple[tuple[int, int, int], int, int]:
    """Decide on the compressed batches, and write the records of those that are rewritten.

    If all batches are decompressed already, their records are written to `records`, one batch after
    the other, and the caller compresses them. Otherwise each batch is decompressed, filtered to the
    start of `records` and compressed to `payloads` with `packs`, which `c_function` returns. The
    kernel then stops before the first batch that is not usual, or that has no room.

    `assemble` fills in the verdict on uncompressed batches. For batches to delete, its first three
    arrays remain DROP, 0 and 0. `starts` (n + 1) receives where each batch's records, or its
    payload, are. Returns ((fault, row, position in `inflated`), finished batches, their records).
    """
    blocks = choice.blocks
    opens = opening.codec != 0
    at = row_of = 0
    for i in range(blocks.rows.size):
        starts[i] = at
        total = int(blocks.rows[i].record_count)
        # A batch to delete is not read, S5.4.
        if blocks.compressed[i] and choice.retention[i] != Retention.DELETE:
            if opens and (total == 0 or count_kept(choice.keep, row_of, row_of + total) > 0):
                if not open_batch(blocks, i, opening):
                    return _DONE, i, row_of
                if opening.ends[i] + GROWTH * total > records.size:
                    return _DONE, i, row_of
            fault, pos, written = filter_records(
                i, row_of, choice, verdict, records, 0 if opens else at
            )
            if fault != 0:
                return (fault, i, pos), i, row_of
            if verdict.action[i] == REWRITE:
                if opens:
                    size = compress_payload(opening.codec, packs, records, 0, written, payloads, at)
                    if size < 0:
                        return _DONE, i, row_of
                    at += size
                else:
                    at = written
        row_of += total
    starts[blocks.rows.size] = at
    return _DONE, blocks.rows.size, row_of
