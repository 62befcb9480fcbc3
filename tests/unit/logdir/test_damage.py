"""Which bytes of a log count as damage, and which do not."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from winnow.logdir.batches import HeaderWalk
from winnow.logdir.damage import Damage, damage_in, find_damage
from winnow.wire.batch import CRC_AT, FRAME_SIZE
from winnow.wire.buffers import as_bytes
from winnow.wire.plain import Record

BASE = 100
LENGTH_AT = 8
LEADER_EPOCH_AT = range(FRAME_SIZE, FRAME_SIZE + 4)


def batch(offset: int, *, records: int = 1, value: bytes = b"value") -> bytes:
    return encode_batch(
        [Record(at, 1_000 + at, b"k", value) for at in range(offset, offset + records)]
    )


def log(counts: list[int], *, value: bytes = b"value") -> tuple[list[bytes], int]:
    """Return consecutive batches with these record counts, and the offset after them."""
    bases = [*accumulate(counts, initial=BASE)]
    return [
        batch(base, records=count, value=value) for base, count in zip(bases, counts, strict=False)
    ], bases[-1]


def damages(data: bytes, end_offset: int) -> list[tuple[int, int]]:
    found = damage_in(as_bytes(data), base_offset=BASE, end_offset=end_offset)
    return [(damage.start, damage.end) for damage in found]


def span(batches: list[bytes], first: int, last: int | None = None) -> tuple[int, int]:
    edges = edges_of(batches)
    return edges[first], edges[(first if last is None else last) + 1]


def edges_of(batches: list[bytes]) -> list[int]:
    return [*accumulate(map(len, batches), initial=0)]


def told_end(data: bytes | bytearray, start: int) -> int:
    """Return where the entry at this byte ends by its own size."""
    return (
        start
        + FRAME_SIZE
        + int.from_bytes(data[start + LENGTH_AT : start + FRAME_SIZE], signed=True)
    )


def test_sound_log_has_no_damage(tmp_path: Path) -> None:
    batches, end = log([1, 3, 2])
    assert damages(b"".join(batches), end) == []
    assert damages(b"", BASE) == []
    (tmp_path / "log").write_bytes(b"".join(batches))
    size = (tmp_path / "log").stat().st_size
    assert find_damage(str(tmp_path / "log"), size, base_offset=BASE, end_offset=end) == ()


@given(
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=7),
    gap=st.integers(0, 2),
    value=st.binary(max_size=40),
    data=st.data(),
)
def test_flipped_bit_damages_only_its_batch(
    counts: list[int], gap: int, value: bytes, data: st.DataObject
) -> None:
    """A flipped leader epoch is not found: no CRC covers it and nothing contradicts it."""
    batches, end = log(counts, value=value)
    at = data.draw(st.integers(0, len(batches) - 1))
    byte = data.draw(st.integers(0, len(batches[at]) - 1))
    # An offset before a gap may be read as that of a missing batch.
    end += gap if byte >= LENGTH_AT else 0
    flipped = bytearray(batches[at])
    flipped[byte] ^= 1 << data.draw(st.integers(0, 7))
    start, stop = span(batches, at)
    whole = b"".join(batches)
    # A size that reaches a later batch or the end exactly is accepted.
    assume(start + told_end(flipped, 0) not in edges_of(batches)[at + 2 :])
    found = damages(whole[:start] + bytes(flipped) + whole[stop:], end)
    assert found == ([] if byte in LEADER_EPOCH_AT else [(start, stop)])


@given(
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    garbage=st.binary(min_size=1, max_size=200),
    place=st.integers(0, 2_000),
)
@example(counts=[1, 1, 3], garbage=b"\xec", place=11)
@example(counts=[1, 1, 3, 1], garbage=b"\x88", place=11)
def test_log_without_its_damage_is_sound(counts: list[int], garbage: bytes, place: int) -> None:
    """For any garbage at any place. A size that reaches a later batch or the end exactly is
    accepted: what it spans is damage.
    """
    batches, end = log(counts)
    whole = b"".join(batches)
    start = place % len(whole)
    damaged = (whole[:start] + garbage + whole[start + len(garbage) :])[: len(whole)]
    left, position = b"", 0
    for begin, stop in damages(damaged, end):
        assert position <= begin < stop <= len(damaged)
        left, position = left + damaged[position:begin], stop
    left += damaged[position:]
    assert damages(left, end) == []
    rows = [row for rows in HeaderWalk(as_bytes(left), BASE) for row in rows]
    assert sum(int(row["size"]) for row in rows) == len(left)
    edges = edges_of(batches)
    told = told_end(damaged, max(edge for edge in edges if edge <= start))
    sound_from = max(start + len(garbage), told if told in edges else 0)
    untouched = [one for one, edge in zip(batches, pairwise(edges), strict=True)
                 if edge[1] <= start or edge[0] >= sound_from]  # fmt: skip
    assert all(one in left for one in untouched)


@pytest.mark.parametrize(("length", "last"), [(0x88, 1), (0xEC, 2)])
def test_wrong_size_is_believed_if_it_reaches_a_batch_or_the_end(length: int, last: int) -> None:
    """Here one byte is wrong and two more batches count as damage: an entry that holds batches
    looks the same. Nothing of it is lost: quarantine keeps these bytes.
    """
    batches, end = log([1, 1, 3] if last == 2 else [1, 1, 3, 1])
    data = bytearray(b"".join(batches))
    data[LENGTH_AT + 3] = length
    assert damages(bytes(data), end) == [span(batches, 0, last)]


def test_adjacent_damaged_batches_are_one_damage() -> None:
    batches, end = log([2, 1, 1, 3, 1, 1])
    data = bytearray(b"".join(batches))
    for at in (1, 2, 4):
        data[span(batches, at)[0] + CRC_AT] ^= 1
    assert damages(bytes(data), end) == [span(batches, 1, 2), span(batches, 4)]


def test_damage_has_the_offsets_around_it() -> None:
    batches, end = log([2, 3, 1])
    data = bytearray(b"".join(batches))
    start, stop = span(batches, 1)
    data[start + CRC_AT] ^= 1
    found = damage_in(as_bytes(bytes(data)), base_offset=BASE, end_offset=end)
    assert list(found) == [Damage(start, stop, least_offset=BASE + 2, end_offset=BASE + 5)]


@pytest.mark.parametrize("size", [1, FRAME_SIZE, 4096])
def test_zeros_after_the_last_batch_are_damage(size: int) -> None:
    batches, end = log([2, 2])
    whole = b"".join(batches)
    assert damages(whole + bytes(size), end) == [(len(whole), len(whole) + size)]


def test_log_without_any_batch_is_one_damage() -> None:
    assert damages(bytes(500), BASE + 10) == [(0, 500)]


def test_batch_inside_a_value_is_not_a_batch() -> None:
    """Even if the size of the surrounding batch is damaged."""
    inner = batch(BASE + 2)
    batches = [batch(BASE), batch(BASE + 1, value=inner), batch(BASE + 3), batch(BASE + 4)]
    start, stop = span(batches, 1)
    data = bytearray(b"".join(batches))
    data[start + LENGTH_AT : start + FRAME_SIZE] = b"\x7f" * 4
    assert inner in data
    assert damages(bytes(data), BASE + 5) == [(start, stop)]


def test_offsets_of_the_next_segment_are_damage() -> None:
    batches, end = log([1, 1, 1])
    assert damages(b"".join(batches), end - 1) == [span(batches, 2)]


def test_batch_that_claims_the_offsets_of_others_is_damage() -> None:
    """Its CRC covers that claim, and yet it is the wrong one."""
    long = batch(BASE + 1, records=3)
    batches = [batch(BASE), long, batch(BASE + 2), batch(BASE + 3), batch(BASE + 5)]
    assert damages(b"".join(batches), BASE + 9) == [span(batches, 1)]


def test_damage_is_found_beyond_the_first_chunk() -> None:
    one = np.frombuffer(batch(0), np.uint8)
    count = 70_000
    data = np.tile(one, (count, 1))
    offsets = (BASE + np.arange(count)).astype(">i8")
    data[:, :8] = offsets.view(np.uint8).reshape(count, 8)
    data[65_536, CRC_AT] ^= 1
    found = damage_in(data.reshape(-1), base_offset=BASE, end_offset=BASE + count)
    begin = 65_536 * len(one)
    assert list(found) == [Damage(begin, begin + len(one), BASE + 65_536, BASE + 65_537)]
