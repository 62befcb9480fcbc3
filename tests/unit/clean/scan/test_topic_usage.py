"""Who holds one of Kafka's own topics, over whole segments and from before a run to after it."""

from __future__ import annotations

import struct

import pytest

from tests.unit.clean.partitions import batch, record
from winnow.clean.result import Holder
from winnow.clean.scan import topic_usage as holders
from winnow.clean.scan.topic_usage import Holdings, holdings_of, top_holders
from winnow.wire.batch import Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.internal_topics import CONSUMER_OFFSETS


def key(name: bytes) -> bytes:
    return struct.pack(">hh", 2, len(name)) + name


def commits(*names: bytes, start: int = 0, codec: Codec = Codec.NONE) -> bytes:
    return b"".join(
        batch(record(start + at, key(name)), codec=codec) for at, name in enumerate(names)
    )


def test_a_log_is_counted_whole_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    log = as_bytes(commits(b"a", b"b", b"a") + commits(b"a", b"c", start=3, codec=Codec.ZSTD))
    whole = holdings_of(log, 0, CONSUMER_OFFSETS)
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
    monkeypatch.setattr(holders, "_ROWS", 2)
    assert holdings_of(log, 0, CONSUMER_OFFSETS) == whole


def test_the_keys_of_other_topics_are_not_looked_at() -> None:
    assert holdings_of(as_bytes(commits(b"a")), 0, "orders") is None
    assert holdings_of(as_bytes(commits(b"a")), 0, "__consumer_offsets_backup") is None


@pytest.mark.parametrize(("codec", "at"), [(Codec.NONE, 61), (Codec.GZIP, -1)])
def test_damage_is_left_to_those_who_clean(codec: Codec, at: int) -> None:
    log = bytearray(commits(b"a", codec=codec))
    log[at] ^= 0x7F
    assert holdings_of(as_bytes(log), 0, CONSUMER_OFFSETS) is None


def test_of_too_many_names_in_a_segment_the_largest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "MOST_NAMES", 2)
    monkeypatch.setattr(holders, "_CHUNK_BYTES", 1)
    found = holdings_of(as_bytes(commits(b"small", b"large" * 9, b"medium!")), 0, CONSUMER_OFFSETS)
    assert found is not None
    assert (set(found.by_name), found.complete) == ({b"large" * 9, b"medium!"}, False)
    told, total = top_holders([found], None)
    assert ([holder.name for holder in told], total) == (["large" * 9, "medium!"], None)


def test_segments_are_added_up_before_and_after() -> None:
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


def test_what_is_not_known_is_not_told() -> None:
    known = Holdings({b"a": (5, 500)})
    assert top_holders([known, None], None) == ((), None)
    assert top_holders([], None) == ((), None)
    (only,), total = top_holders([known], [None])
    assert (only.bytes_before, only.bytes_after, total) == (500, None, 1)


def test_few_are_shown_and_all_are_counted() -> None:
    told, total = top_holders([Holdings({b"%d" % n: (1, n) for n in range(20)})], None)
    assert ([holder.name for holder in told], total) == (["19", "18", "17", "16", "15"], 20)


def test_a_name_that_is_no_text_is_shown_all_the_same() -> None:
    (only,), _ = top_holders([Holdings({b"\xff": (1, 1)})], None)
    assert only.name == "\\xff"
