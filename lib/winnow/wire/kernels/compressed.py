"""Process compressed batches one by one, each while it is in the processor's cache.

Other code decompresses many batches before it looks at the first one. Their records are then in
memory, and memory is what it waits for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import CODEC_MASK, HEADER_V2_SIZE
from winnow.wire.buffers import Bytes, RecordBlocks, Rows, as_bytes, read_only
from winnow.wire.choice import REWRITE, Choice, Retention, Verdict
from winnow.wire.kernels.codec import compress_payload, decompress_payload
from winnow.wire.kernels.filter import count_kept, filter_records
from winnow.wire.kernels.record import kernel
from winnow.wire.kernels.writing import GROWTH

AREA_BYTES = 2**20
"""Room for the records of one batch. Larger batches are left to others."""
_DONE = 0, 0, 0


def first_codec(batches: Rows) -> int:
    """Return the codec of the first compressed batch, 0 if there is none."""
    codecs = batches["attributes"] & CODEC_MASK
    return int(codecs[np.argmax(codecs != 0)]) if len(codecs) else 0


def opened(closed: RecordBlocks) -> tuple[RecordBlocks, Bytes, NDArray[np.int64]]:
    """Return the blocks as a kernel reads them that decompresses one batch after the other, and
    what it writes to: `inflated`, which holds the records of one batch, and `end`.
    """
    area, ends = np.empty(AREA_BYTES, np.uint8), closed.end.copy()
    return closed._replace(inflated=as_bytes(area), end=read_only(ends)), area, ends


@kernel
def filter_compressed(
    choice: Choice,
    verdict: Verdict,
    codec: int,
    opens: tuple[int, int],
    packs: tuple[int, int],
    limit: int,
    area: Bytes,
    ends: NDArray[np.int64],
    records: Bytes,
    payloads: Bytes,
    starts: NDArray[np.int64],
) -> tuple[tuple[int, int, int], int, int]:
    """Decide on the compressed batches, and write the records of those that are rewritten.

    With 0 for `codec`, batches are decompressed already. Their records are written one batch after
    the other, and the caller compresses them. With lz4 or zstd, each batch is decompressed to
    `area`, filtered to `records` and compressed to `payloads`, while the processor has it in its
    cache. Then `choice.blocks.inflated` is `area`, and `choice.blocks.end` is `ends`; both are
    read-only there. The kernel stops before a batch that is not usual: of another codec, without
    room, or damaged. `opens` and `packs`: what `c_function` returns. `limit`: decompressed bytes of
    a batch.

    `assemble` fills in the verdict on uncompressed batches. For batches to delete, its first three
    arrays remain DROP, 0 and 0. `starts` (n + 1) receives where each batch's records, or its
    payload, are. Returns ((fault, row, position in `inflated`), finished batches, their records).
    """
    blocks = choice.blocks
    at = row_of = 0
    for i in range(blocks.rows.size):
        starts[i] = at
        row = blocks.rows[i]
        total = int(row.record_count)
        # A batch to delete is not read, S5.4.
        if blocks.compressed[i] and choice.retention[i] != Retention.DELETE:
            if codec != 0:
                if int(row.attributes) & CODEC_MASK != codec:
                    return _DONE, i, row_of
                if total == 0 or count_kept(choice.keep, row_of, row_of + total) > 0:
                    begin, end = row.position + HEADER_V2_SIZE, row.position + row.size
                    most = min(limit, area.size)
                    size = decompress_payload(codec, opens, blocks.raw, begin, end, area, 0, most)
                    if size < 0 or size + GROWTH * total > records.size:
                        return _DONE, i, row_of
                    ends[i] = size
            fault, pos, written = filter_records(
                i, row_of, choice, verdict, records, 0 if codec != 0 else at
            )
            if fault != 0:
                return (fault, i, pos), i, row_of
            if verdict.action[i] == REWRITE:
                if codec != 0:
                    size = compress_payload(codec, packs, records, 0, written, payloads, at)
                    if size < 0:
                        return _DONE, i, row_of
                    at += size
                else:
                    at = written
        row_of += total
    starts[blocks.rows.size] = at
    return _DONE, blocks.rows.size, row_of
