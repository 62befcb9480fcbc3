"""Rewrite a segment without the records of some keys."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from tests.unit.cleaning.partitions import (
    INTERVAL,
    SECRET,
    batch,
    indexes,
    make_partition,
    record,
    segments_of,
)
from tests.unit.policy.states import config
from tests.unit.wire.logs import random_log
from winnow.errors import CorruptLogError
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX
from winnow.verbs.erase.segment import SegmentWork, Sought, rewrite_segment, scan_segment
from winnow.verbs.erase.values import Amount
from winnow.wire.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_V2_SIZE,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    Codec,
)
from winnow.wire.key_search import key_set_of
from winnow.wire.plain import Record

LATER = 10**6
"""Offsets from a segment to the next."""
SAME = (
    *("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch"),
    *("base_sequence", "magic"),
)  # fmt: skip


def work_on(directory: Path) -> SegmentWork:
    segment, following = segments_of(directory)[:2]
    return SegmentWork(
        directory=str(directory),
        staging=str(directory / ".winnow-run"),
        segment=segment,
        end_offset=following.base_offset,
        config=config(index_interval_bytes=INTERVAL),
    )


def rewritten(directory: Path, *keys: bytes) -> tuple[StagedGroup, Amount]:
    (directory / ".winnow-run").mkdir()
    return rewrite_segment(work_on(directory), key_set_of(keys, SECRET))


def staged(result: tuple[StagedGroup, Amount], suffix: str) -> bytes:
    return Path(result[0].paths[suffix]).read_bytes()


def partition(directory: Path, *batches: bytes, base: int = 0) -> Path:
    return make_partition(directory, {base: batches, base + LATER: [batch(record(base + LATER))]})


def split(log: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(log):
        header, _ = decode_batch(log, position)
        found.append(log[position : position + int(header["size"])])
        position += int(header["size"])
    return found


def check(source: bytes, last: bool, left: bytes | None, keys: frozenset[bytes]) -> None:  # noqa: FBT001
    """Check what became of one batch against the rules, independent of the code."""
    header, records = decode_batch(source, 0)
    bits = int(header["attributes"])
    stay = [r for r in records if r.key not in keys or bits & CONTROL]
    if len(stay) == len(records):
        assert left == source
        return
    if not stay and header["producer_id"] == NO_PRODUCER and not last:
        assert left is None
        return
    assert left is not None
    found, out = decode_batch(left, 0)
    assert out == stay
    assert [found[name] for name in SAME] == [header[name] for name in SAME]
    if not stay:
        assert len(left) == HEADER_V2_SIZE
        assert found["max_timestamp"] == header["max_timestamp"]
        assert found["attributes"] == bits & ~(CODEC_MASK | DELETE_HORIZON)
        return
    assert found["attributes"] == bits
    if bits & LOG_APPEND_TIME:
        assert found["max_timestamp"] == header["max_timestamp"]
    else:
        assert found["max_timestamp"] == max(r.timestamp for r in stay)
    if bits & DELETE_HORIZON:
        assert found["base_timestamp"] == header["base_timestamp"]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_each_batch_loses_only_records_of_the_erased_keys(seed: int, choice: int) -> None:
    rng = random.Random(choice)
    batches = random_log(seed)
    there = [r.key for b in batches for r in decode_batch(b, 0)[1] if r.key is not None]
    keys = frozenset(key for key in there if rng.random() < rng.choice((0.1, 0.5, 1.0)))
    base = int(decode_batch(batches[0], 0)[0]["base_offset"])
    with tempfile.TemporaryDirectory() as scratch:
        directory = partition(Path(scratch) / "t-0", *batches, base=base)
        found = scan_segment(work_on(directory), Sought(key_set_of([*keys], SECRET)))
        result = rewritten(directory, *keys)
        log = staged(result, LOG)
        assert staged(result, INDEX) == indexes(log, base)[INDEX]
        assert staged(result, TIMEINDEX) == indexes(log, base)[TIMEINDEX]
    left = {int(decode_batch(b, 0)[0]["base_offset"]): b for b in split(log)}
    for source in batches:
        check(
            source,
            source is batches[-1],
            left.pop(int(decode_batch(source, 0)[0]["base_offset"]), None),
            keys,
        )
    assert left == {}
    gone = sum(r.key in keys for b in batches if not is_control(b) for r in decode_batch(b, 0)[1])
    assert (found.matches.records, result[1]) == (gone, found.matches)
    assert len(np.frombuffer(found.keys, np.uint32)) == len(
        {r.key for b in batches if not is_control(b) for r in decode_batch(b, 0)[1]} & keys
    )


def is_control(source: bytes) -> bool:
    return bool(int(decode_batch(source, 0)[0]["attributes"]) & CONTROL)


@pytest.mark.parametrize("codec", list(Codec))
def test_tombstones_are_kept_without_a_horizon(codec: Codec, tmp_path: Path) -> None:
    source = batch(record(0, b"a", None), record(1, b"b"), record(2, b"a"), codec=codec)
    untouched = batch(record(3, b"c", None), codec=codec)
    log = staged(rewritten(partition(tmp_path / "t-0", source, untouched), b"b"), LOG)
    first, second = split(log)
    header, out = decode_batch(first, 0)
    assert (out, int(header["attributes"])) == ([record(0, b"a", None), record(2, b"a")], codec)
    assert second == untouched


def test_segment_without_records_keeps_its_last_offset(tmp_path: Path) -> None:
    result = rewritten(
        partition(
            tmp_path / "t-0", batch(record(0, b"a")), batch(record(1, b"a"), record(2, b"a"))
        ),
        b"a",
    )
    header, out = decode_batch(staged(result, LOG), 0)
    assert (int(header["last_offset"]), out) == (2, [])
    assert len(staged(result, LOG)) == HEADER_V2_SIZE


def test_transaction_index_is_unchanged(tmp_path: Path) -> None:
    source = encode_batch(
        [record(0, b"a"), record(1, b"b")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    marker = encode_batch(
        [Record(2, 5, bytes(4), bytes(6))],
        producer_id=7,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    directory = partition(tmp_path / "t-0", source, marker, batch(record(3, b"c")))
    entry = b"\0\0" + b"".join(n.to_bytes(8) for n in (7, 0, 2, 3))
    (directory / f"{0:020}.txnindex").write_bytes(entry)
    result = rewritten(directory, b"a", bytes(4))
    assert staged(result, TXNINDEX) == entry
    assert [decode_batch(b, 0)[1] for b in split(staged(result, LOG))] == [
        [record(1, b"b")],
        [Record(2, 5, bytes(4), bytes(6))],
        [record(3, b"c")],
    ]


@pytest.mark.parametrize("at", [70, HEADER_V2_SIZE + 200])
def test_damage_is_refused_and_leaves_no_staged_files(at: int, tmp_path: Path) -> None:
    directory = partition(tmp_path / "t-0", batch(record(0, b"a", bytes(300))))
    path = directory / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match=r"CRC.*00000000000000000000\.log"):
        rewritten(directory, b"a")
    assert list((directory / ".winnow-run").iterdir()) == []


def test_mode_and_mtime_of_the_source_are_kept(tmp_path: Path) -> None:
    directory = partition(tmp_path / "t-0", batch(record(0, b"a")), batch(record(1, b"b")))
    source = directory / f"{0:020}.log"
    source.chmod(0o640)
    result: Any = rewritten(directory, b"a")
    for suffix in (LOG, INDEX, TIMEINDEX):
        status = Path(result[0].paths[suffix]).stat()
        assert status.st_mode & 0o777 == 0o640
        assert status.st_mtime_ns // 10**6 == source.stat().st_mtime_ns // 10**6
