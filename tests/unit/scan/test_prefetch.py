"""Keys read along with the headers equal those that a scan finds, or are not used."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import SECRET, batch, job_of, make_partition, record
from winnow.errors import CorruptLogError
from winnow.logdir.names import LOG, segment_file
from winnow.runtime.spool import joined
from winnow.scan import cut
from winnow.scan.chunks import batches_of
from winnow.scan.cut import Split
from winnow.scan.prefetch import (
    Expected,
    KeyKeeper,
    Prefetch,
    blobs_of,
    prefetch_of,
    tombstones_of,
    with_usable_keys,
)
from winnow.scan.scan import KeyBlob, scan_split
from winnow.scan.topic_usage import Holdings
from winnow.survey.walk import SegmentWalk, walk_segment
from winnow.wire.batch import Codec
from winnow.wire.internal_topics import CONSUMER_OFFSETS

OLD = bytes.fromhex("00000000000000000000000ea7ec68030000ffffffffffffffff")
"""Offset 0 in v0, no key, no value."""


def prefetch(
    spool: Path, *, buckets: int = 3, first_dirty_offset: int = 0, **changes: object
) -> Prefetch:
    spool.mkdir(exist_ok=True)
    asked = Prefetch(
        first_dirty_offset=first_dirty_offset,
        buckets=buckets,
        secret=SECRET,
        max_decompressed_bytes=2**20,
        end_offset=10**6,
        spool=str(spool),
        most_keys=1,
        least_free=0,
    )
    return replace(asked, **changes)  # type: ignore[arg-type]


def walked(
    directory: Path, asked: Prefetch | None, *, base: int = 0, topic: str | None = None
) -> SegmentWalk:
    size = (directory / segment_file(base, LOG)).stat().st_size
    return walk_segment(str(directory), base, size, prefetch=asked, topic=topic)


def found(blobs: object) -> Mapping[tuple[int, bool], tuple[list[int], list[int]]]:
    """Return hashes and numbers by bucket and kind."""
    return {
        (bucket, blob.dirty): (
            joined([blob.hashes], np.uint64).tolist(),
            joined([blob.numbers], np.uint32).tolist(),
        )
        for bucket, blob in blobs  # type: ignore[attr-defined]
    }


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([Codec.NONE, Codec.LZ4, Codec.GZIP]))
def test_prefetched_keys_equal_scanned_keys(
    tmp_path_factory: pytest.TempPathFactory, seed: int, codec: Codec
) -> None:
    rng = random.Random(seed)
    log, offset = [], 0
    for _ in range(rng.randrange(1, 10)):
        records = [
            record(offset + i, rng.choice((None, b"a", b"b", b"%d" % i)))
            for i in range(rng.randrange(1, 9))
        ]
        offset += len(records)
        log.append(
            encode_batch(
                records,
                codec=codec,
                transactional=rng.random() < 0.1,
                producer_id=rng.choice((-1, 7)),
            )
        )
    home = tmp_path_factory.mktemp("prefetch")
    directory = make_partition(home / "t-0", {0: log})
    asked = prefetch(
        home / "spool", buckets=rng.choice((1, 3, 50)), first_dirty_offset=rng.randrange(offset + 1)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "SPLIT_BYTES", rng.choice((1, 200, 2**20)))
        patch.setattr("winnow.logdir.batches.BLOCK_ROWS", rng.choice((1, 3, 4096)))
        walk = walked(directory, asked)
        bare = walked(directory, None)
    assert [replace(split, keys=None) for split in walk.splits] == list(bare.splits)
    job = job_of(directory, splits=walk.splits, first_dirty_offset=asked.first_dirty_offset)
    for number, split in enumerate(walk.splits):
        assert (split.keys is not None) == split.plain
        if split.keys is not None:
            buckets = range(split.keys.buckets)
            assert found(blobs_of(split.keys, number, buckets)) == found(
                scan_split(job, number, SECRET)
            )
            assert {blob.split for _, blob in blobs_of(split.keys, number, buckets)} <= {number}


def test_topic_usage_is_the_same_with_prefetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(offset: int, group: bytes) -> bytes:
        key = b"\0\1" + len(group).to_bytes(2) + group + b"\0\1t" + bytes([0, 0, 0, offset % 3])
        return batch(
            record(offset, key, b"v" * (1 + offset % 5)),
            record(offset + 1, key),
            record(offset + 2, b"?"),
        )

    log = [commit(3 * i, b"group-%d" % (i % 4)) for i in range(40)]
    directory = make_partition(tmp_path / "t-0", {0: log})
    expected = walked(directory, None, topic=CONSUMER_OFFSETS).holdings
    assert isinstance(expected, Holdings)
    assert len(expected.by_name) == 4
    for split_bytes in (1, 500, 2**20):
        monkeypatch.setattr(cut, "SPLIT_BYTES", split_bytes)
        walk = walked(directory, prefetch(tmp_path / "spool"), topic=CONSUMER_OFFSETS)
        assert all(split.keys for split in walk.splits)
        assert walk.holdings == expected
        refused = walked(
            directory, prefetch(tmp_path / "spool", most_keys=0), topic=CONSUMER_OFFSETS
        )
        assert refused.holdings == expected


def test_prefetch_skips_damage_and_the_scan_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut, "SPLIT_BYTES", 1)
    log = [batch(record(i, b"k%d" % i)) for i in range(3)]
    directory = make_partition(tmp_path / "t-0", {0: log})
    data = bytearray(b"".join(log))
    data[len(log[0]) + len(log[1]) - 2] ^= 1
    (directory / segment_file(0, LOG)).write_bytes(data)
    walk = walked(directory, prefetch(tmp_path / "spool"))
    assert [split.keys is not None for split in walk.splits] == [True, False, False]
    job = job_of(directory, splits=walk.splits)
    with pytest.raises(CorruptLogError, match="does not match its CRC"):
        list(scan_split(job, 1, SECRET))


def test_prefetch_skips_old_formats(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [OLD]})
    assert [split.keys for split in walked(directory, prefetch(tmp_path / "spool")).splits] == [
        None
    ]


@pytest.mark.parametrize(
    "changes", [{"most_keys": 0.001}, {"least_free": 2**62}], ids=["keys", "room"]
)
def test_keys_above_the_limits_are_not_spooled(
    tmp_path: Path, changes: Mapping[str, object]
) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [batch(record(0))]})
    [split] = walked(directory, prefetch(tmp_path / "spool", **changes)).splits
    assert split.keys is None
    assert os.listdir(tmp_path / "spool") == []


def test_unwritable_spool_disables_prefetch(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [batch(record(0))]})
    asked = prefetch(tmp_path / "spool")
    (tmp_path / "spool").rmdir()
    assert [split.keys for split in walked(directory, asked).splits] == [None]


def test_truncated_spool_file_is_an_error(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [batch(record(0))]})
    [split] = walked(directory, prefetch(tmp_path / "spool")).splits
    assert split.keys is not None
    path = split.keys.parts[0].numbers.path
    os.truncate(path, os.path.getsize(path) - 1)
    blobs: list[KeyBlob] = [blob for _, blob in blobs_of(split.keys, 0, range(split.keys.buckets))]
    with pytest.raises(OSError, match="1 bytes are missing"):
        joined([blob.numbers for blob in blobs], np.uint32)


def test_keys_prefetched_for_another_plan_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut, "SPLIT_BYTES", 1)
    directory = make_partition(
        tmp_path / "t-0", {0: [batch(record(0)), batch(record(1), record(2))]}
    )
    splits = walked(directory, prefetch(tmp_path / "spool", first_dirty_offset=1)).splits
    assert all(split.keys for split in splits)
    assert with_usable_keys(splits, first_dirty_offset=1) == splits
    assert [split.keys for split in with_usable_keys(splits, first_dirty_offset=2)] == [None, None]
    # A split without prefetched keys has more records than these few buckets can take.
    mixed = [splits[0], replace(splits[1], keys=None, records=3 * 4_000_000 - 1)]
    assert with_usable_keys(mixed, first_dirty_offset=1) == tuple(mixed)
    mixed = [splits[0], replace(splits[1], keys=None, records=3 * 4_000_000)]
    assert [split.keys for split in with_usable_keys(mixed, first_dirty_offset=1)] == [None, None]


def expected_of(*segments: int) -> Expected:
    return Expected(first_dirty_offset=5, end_offset=9, max_decompressed_bytes=1, segments=segments)


def test_no_prefetch_if_a_core_would_be_idle_for_long(tmp_path: Path) -> None:
    def asked(**partitions: Expected) -> set[str]:
        return set(prefetch_of(partitions, SECRET, str(tmp_path), 2))

    assert asked(a=expected_of(2**30)) == set()
    assert asked(a=expected_of(2**30, 2**29)) == set()
    assert asked(a=expected_of(2**30, 2**30)) == {"a"}
    assert asked(a=expected_of(*[2**28] * 8)) == {"a"}
    assert asked(a=expected_of(*[2**28] * 3)) == set()
    assert asked(a=expected_of(*[2**28] * 8), b=expected_of(1)) == {"a", "b"}
    assert asked(a=expected_of(*[2**28] * 8), b=expected_of(2**30)) == {"a", "b"}
    assert asked(a=expected_of(*[2**28] * 8), b=expected_of(2**32)) == set()
    assert asked() == set()


def test_bucket_count_grows_with_bytes(tmp_path: Path) -> None:
    def buckets(*sizes: int) -> list[int]:
        partitions = {
            str(number): expected_of(*[size // 16] * 16) for number, size in enumerate(sizes)
        }
        made = prefetch_of(partitions, SECRET, str(tmp_path), 2)
        return [made[name].buckets for name in partitions]

    assert buckets(2**20) == [1]
    assert buckets(2**31) == [17]
    assert buckets(2**31, 2**20, 2**33) == [17, 1, 68]
    assert buckets(2**50) == [2**14]


def test_keeper_accepts_splits_one_by_one_or_together(tmp_path: Path) -> None:
    """One row may end a split, and several rows may end three."""
    log = b"".join(batch(record(i)) for i in range(4))
    directory = make_partition(tmp_path / "t-0", {0: [log]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "SPLIT_BYTES", 1)
        splits = walked(directory, None).splits
    assert len(splits) == 4
    buf = np.frombuffer(log, np.uint8)
    rows = batches_of(buf, "f", 0)
    keepers = [KeyKeeper(buf, prefetch(tmp_path / "spool"), None) for _ in range(2)]
    for i in range(4):
        keepers[0].add(rows[i : i + 1], splits[: i + 1])
    keepers[1].add(rows, splits)
    one, other = ([_content(split) for split in keeper.finish(splits)] for keeper in keepers)
    assert one == other
    assert keepers[0].done == len(log)


def _content(split: Split) -> tuple[list[bytes], bytes]:
    keys = split.keys
    assert keys is not None
    blobs = [blob for _, blob in blobs_of(keys, 0, range(keys.buckets))]
    parts = [joined([part], np.uint8).tobytes() for b in blobs for part in (b.hashes, b.numbers)]
    return parts, tombstones_of(keys).tobytes()
