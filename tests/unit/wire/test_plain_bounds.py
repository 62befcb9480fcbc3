"""Records that are shown become objects, so a batch may not have any number of them."""

from __future__ import annotations

import pytest

from tests.twins.encoding import encode_batch
from winnow.errors import CorruptLogError
from winnow.scan.chunks import batches_of
from winnow.wire import plain
from winnow.wire.buffers import as_bytes
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record, read_records


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([Record(n, 0, None, None) for n in range(11)], "11"),
        ([Record(0, 0, None, None, ((b"a", None),) * 11)], "11"),
        ([Record(n, 0, None, None, ((b"a", None),) * 4) for n in range(3)], "3|4"),
    ],
    ids=["records", "headers", "both"],
)
def test_records_and_headers_of_a_batch_have_a_limit(
    records: list[Record], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = as_bytes(encode_batch(records))
    blocks = inflate(log, batches_of(log, "log", 0))
    assert read_records(blocks.area(0), blocks.rows[0]) == records
    monkeypatch.setattr(plain, "MOST_ITEMS", 10)
    with pytest.raises(CorruptLogError, match=f"at most 10 records and headers, found ({found})"):
        read_records(blocks.area(0), blocks.rows[0])
