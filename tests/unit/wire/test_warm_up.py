from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.twins.encoding import encode_batch
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.logs import record
from winnow.wire import names, record_checks, records, walk
from winnow.wire.batch import BATCH, Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.choice import Era
from winnow.wire.filtering import filter_batches, filter_in_cache
from winnow.wire.inflate import closed, inflate
from winnow.wire.internal_topics import CONSUMER_OFFSETS
from winnow.wire.kernels import codec as codec_kernels
from winnow.wire.kernels import compressed as compressed_kernels
from winnow.wire.kernels import crc as crc_kernels
from winnow.wire.kernels import filter as filter_kernels
from winnow.wire.kernels import legacy as legacy_kernels
from winnow.wire.kernels import names as name_kernels
from winnow.wire.kernels import records as record_kernels
from winnow.wire.kernels import walk as walk_kernels
from winnow.wire.warm_up import warm_up

KERNELS: list[Any] = [
    walk_kernels.walk,
    walk_kernels.first_bad_crc,
    legacy_kernels.convert,
    record_kernels.scan,
    record_checks._check,
    walk_kernels.find_batch,
    name_kernels.count,
    compressed_kernels.filter_compressed,
    filter_kernels.assemble,
    codec_kernels._decompress,
    codec_kernels._compress,
    crc_kernels.extended,
]


def test_warm_up_compiles_for_every_kind_of_buffer_and_batch(tmp_path: Path) -> None:
    warm_up()
    before = [list(kernel.signatures) for kernel in KERNELS]
    assert all(len(signatures) == 1 for signatures in before)
    path = tmp_path / "0.log"
    path.write_bytes(
        entry(0, 1)
        + encode_batch([record(1)])
        + encode_batch([record(2), record(3)], codec=Codec.ZSTD)
    )
    with path.open("r+b") as file:
        mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        for buf in (mapped, mapped.copy(), np.memmap(path, np.uint8, "r+"), path.read_bytes()):
            rows = np.zeros(5, BATCH)
            count, _, _ = walk.walk_batches(buf, 0, 0, rows)
            assert walk.first_bad_crc(buf, rows[:count]) == -1
            walk.find_batch(buf, 0, 0, 2**62)
            for some in (rows[:count], rows[1:count]):  # with and without a batch of v0
                blocks = inflate(buf, some)
                record_checks.check_records(blocks)
                names.count_names(blocks, CONSUMER_OFFSETS, most=9)
                columns = records.scan_records(blocks, (0, 2**64 - 1))
                for era in (Era(), Era(converts=False)):
                    filter_batches(
                        blocks,
                        columns.offset != 1,
                        np.ones(len(some), np.int8),
                        now=10**12,
                        delete_retention_ms=0,
                        era=era,
                    )
            compressed = closed(buf, rows[2:count])
            how = np.array([True, False]), np.ones(1, np.int8)
            filter_in_cache(compressed, *how, now=10**12, delete_retention_ms=0, limit=9999)
            records.scan_in_cache(compressed, (1, 2), limit=9999)
    assert [list(kernel.signatures) for kernel in KERNELS] == before


def test_bytes_are_viewed_without_a_copy_or_refused() -> None:
    array = np.arange(10, dtype=np.uint8)
    view = as_bytes(array)
    assert not view.flags.writeable
    assert array.flags.writeable
    assert np.shares_memory(view, array)
    for wrong in (array[::2], array.astype(np.int8), array.reshape(2, 5)):
        with pytest.raises(ValueError, match="expected contiguous bytes"):
            as_bytes(wrong)  # type: ignore[arg-type]
