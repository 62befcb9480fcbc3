"""Digests of records agree with the plain twin, and do not depend on a record's batch and codec."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import digests_plain, records_plain
from tests.unit.wire.legacy_logs import legacy_log, random_legacy_log
from tests.unit.wire.logs import log, random_log, record
from winnow.wire.batch import Codec
from winnow.wire.columns import record_places
from winnow.wire.digests import record_digests
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record

SECRET = (0x0706050403020100, 2**64 - 3)
Both = list[tuple[tuple[int, int], tuple[int, int]]]


def by_kernel(batches: list[bytes]) -> tuple[Both, list[Record]]:
    buf, rows = log(batches)
    blocks = inflate(buf, rows)
    keys, contents = record_digests(blocks, record_places(blocks), SECRET)
    pairs = zip(map(tuple, keys.tolist()), map(tuple, contents.tolist()), strict=True)
    return list(pairs), records_plain(blocks)


@given(st.integers(0, 2**32))
def test_kernel_agrees_with_twin(seed: int) -> None:
    found, records = by_kernel(random_log(seed))
    assert found == [digests_plain(record, SECRET) for record in records]


@given(st.integers(0, 2**32))
def test_kernel_agrees_with_twin_on_old_formats(seed: int) -> None:
    buf, rows = legacy_log(random_legacy_log(seed))
    blocks = inflate(buf, rows)
    keys, contents = record_digests(blocks, record_places(blocks), SECRET)
    expected = [digests_plain(record, SECRET) for record in records_plain(blocks)]
    assert [
        (tuple(k), tuple(c)) for k, c in zip(keys.tolist(), contents.tolist(), strict=True)
    ] == expected


def test_digest_does_not_depend_on_codec_or_batch() -> None:
    records = [record(n, b"k%d" % n, b"v" * n) for n in range(5)]
    together, _ = by_kernel([encode_batch(records)])
    apart, _ = by_kernel(
        [encode_batch([r], base_offset=r.offset, codec=Codec.ZSTD) for r in records]
    )
    assert together == apart


def test_digest_covers_all_that_a_consumer_sees() -> None:
    """Null differs from empty, and a header's name from its value."""
    base = Record(0, 5, b"k", b"v", ((b"a", b"b"),))
    others = [
        replace(base, timestamp=6),
        replace(base, value=b"w"),
        replace(base, value=b""),
        replace(base, value=None),
        replace(base, headers=()),
        replace(base, headers=((b"a", None),)),
        replace(base, headers=((b"a", b""),)),
        replace(base, headers=((b"", b"ab"),)),
        replace(base, headers=((b"ab", b""),)),
        replace(base, headers=((b"a", b"b"), (b"a", b"b"))),
    ]
    contents = {by_kernel([encode_batch([one])])[0][0][1] for one in (base, *others)}
    assert len(contents) == 1 + len(others)
    key = by_kernel([encode_batch([base])])[0][0][0]
    assert key != by_kernel([encode_batch([replace(base, key=b"l")])])[0][0][0]


def test_places_of_other_batches_are_refused() -> None:
    buf, rows = log([encode_batch([record(0, b"key", b"v" * 100)])])
    places = record_places(inflate(buf, rows))
    small, small_rows = log([encode_batch([record(0, b"", b"")])])
    blocks = inflate(small, small_rows)
    with pytest.raises(ValueError, match="not in these batches"):
        record_digests(blocks, places, SECRET)
    assert len(record_digests(blocks, places.take(np.empty(0, np.int64)), SECRET)[0]) == 0
