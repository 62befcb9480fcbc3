"""Which groups or transactions use one of Kafka's own topics, before and after a run."""

from __future__ import annotations

import struct

import pytest

from tests.unit.cleaning.partitions import batch, record
from winnow.logdir import batches
from winnow.scan import topic_usage as holders
from winnow.scan.topic_usage import Holdings, HoldingsCounter, top_holders
from winnow.scan.values import Holder
from winnow.wire.batch import Codec
from winnow.wire.buffers import Bytes, as_bytes
from winnow.wire.internal_topics import CONSUMER_OFFSETS


def key(name: bytes) -> bytes:
    return struct.pack(">hh", 2, len(name)) + name


def commits(*names: bytes, start: int = 0, codec: Codec = Codec.NONE) -> bytes:
    return b"".join(
        batch(record(start + at, key(name)), codec=codec) for at, name in enumerate(names)
    )


def holdings_of(log: Bytes) -> Holdings | None:
    counter = HoldingsCounter(log, CONSUMER_OFFSETS)
    for rows in batches.HeaderWalk(log, 0, gradually=True, passes=True):
        counter.add(rows)
    return counter.holdings()


def test_usage_is_the_same_at_any_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    log = as_bytes(commits(b"a", b"b", b"a") + commits(b"a", b"c", start=3, codec=Codec.ZSTD))
    whole = holdings_of(log)
    assert whole is not None
    assert {name: records for name, (records, _) in whole.by_name.items()} == {
        b"a": 3,
        b"b": 1,
        b"c": 1,
    }
    assert sum(size for _, size in whole.by_name.values()) == len(log), (
        "a batch of one record is all its own"
    )
    monkeypatch.setattr(holders, "_CHUNK_BYTES", 100)
    monkeypatch.setattr(batches, "BLOCK_ROWS", 2)
    assert holdings_of(log) == whole


@pytest.mark.parametrize(("codec", "at"), [(Codec.NONE, 61), (Codec.GZIP, -1)])
def test_damaged_log_has_no_usage(codec: Codec, at: int) -> None:
    log = bytearray(commits(b"a", codec=codec))
    log[at] ^= 0x7F
    assert holdings_of(as_bytes(log)) is None


def test_segment_with_too_many_names_keeps_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "MOST_NAMES", 2)
    monkeypatch.setattr(holders, "_CHUNK_BYTES", 1)
    found = holdings_of(as_bytes(commits(b"small", b"large" * 9, b"medium!")))
    assert found is not None
    assert (set(found.by_name), found.complete) == ({b"large" * 9, b"medium!"}, False)
    told, total = top_holders([found], None)
    assert ([holder.name for holder in told], total) == (["large" * 9, "medium!"], None)


def test_usage_is_summed_over_segments_before_and_after() -> None:
    before = [
        Holdings({b"a": (5, 500), b"b": (9, 300)}),
        Holdings({b"a": (1, 100), b"c": (2, 700)}),
    ]
    after = [Holdings({b"a": (1, 90)}), Holdings({b"c": (2, 700)})]
    told, total = top_holders(before, after)
    assert total == 3
    assert told == (
        Holder(name="c", records_before=2, bytes_before=700, records_after=2, bytes_after=700),
        Holder(name="a", records_before=6, bytes_before=600, records_after=1, bytes_after=90),
        Holder(name="b", records_before=9, bytes_before=300, records_after=0, bytes_after=0),
    )
    assert [holder.bytes_after for holder in top_holders(before, None)[0]] == [None] * 3


def test_unknown_usage_is_not_reported() -> None:
    known = Holdings({b"a": (5, 500)})
    assert top_holders([known, None], None) == ((), None)
    assert top_holders([], None) == ((), None)
    (only,), total = top_holders([known], [None])
    assert (only.bytes_before, only.bytes_after, total) == (500, None, 1)


def test_only_the_top_five_are_shown_but_all_are_counted() -> None:
    told, total = top_holders([Holdings({b"%d" % n: (1, n) for n in range(20)})], None)
    assert ([holder.name for holder in told], total) == (["19", "18", "17", "16", "15"], 20)


def test_name_that_is_not_utf8_is_shown_escaped() -> None:
    (only,), _ = top_holders([Holdings({b"\xff": (1, 1)})], None)
    assert only.name == "\\xff"
