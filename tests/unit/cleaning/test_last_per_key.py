"""Scan and resolve keep exactly what a dictionary would keep (S4, S5.5)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.last_offsets import KeyedRecord, survivors
from tests.unit.cleaning.partitions import SECRET, batch, job_of, make_partition, record
from winnow.scan import cut
from winnow.scan.last_offsets import last_per_key, packed_by_bucket
from winnow.scan.resolve import resolve_bucket
from winnow.scan.scan import KeyBlob, PackedKeys, _blobs, scan_split
from winnow.wire.batch import Codec

SPLITS = st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=4)
"""Keys of the records of each split."""


def resolved(blobs: Iterable[tuple[int, KeyBlob]], seed: int) -> set[tuple[int, int]]:
    """Return (split, number) of the survivors; blobs arrive in any order."""
    by_bucket: dict[int, list[KeyBlob]] = defaultdict(list)
    for bucket, blob in blobs:
        by_bucket[bucket].append(blob)
    found: list[tuple[int, int]] = []
    for together in by_bucket.values():
        random.Random(seed).shuffle(together)
        for some in resolve_bucket(together):
            found += [
                (some.split, int(number)) for number in np.frombuffer(some.numbers, np.uint32)
            ]
    assert len(found) == len(set(found))
    return set(found)


def blobs_of(
    keys: Sequence[int],
    split: int,
    first_dirty: int,
    hash_of: Sequence[tuple[int, int]],
    buckets: int,
) -> list[tuple[int, KeyBlob]]:
    """Pack blobs as a scan does; `first_dirty` is the number of the first dirty record."""
    hashes = np.array([hash_of[key] for key in keys], np.uint64).reshape(-1, 2)
    dirty = np.arange(len(keys)) >= first_dirty
    return [
        *_blobs(
            split,
            PackedKeys(True, *packed_by_bucket(hashes, last_per_key(hashes, dirty), buckets)),
            None,
        ),
        *_blobs(split, PackedKeys(False, *packed_by_bucket(hashes, ~dirty, buckets)), None),
    ]


@settings(max_examples=150, deadline=None)
@given(
    splits=SPLITS,
    clean=st.integers(0, 30),
    buckets=st.sampled_from((1, 2, 3, 7)),
    lows=st.sampled_from(((0, 0, 0, 0, 0), (2**64 - 1, 15, 31, 15, 15), (1, 2, 3, 4, 5))),
    seed=st.integers(0, 2**16),
)
def test_kernels_match_a_dictionary_despite_half_hash_collisions(
    splits: list[list[int]], clean: int, buckets: int, lows: tuple[int, ...], seed: int
) -> None:
    """The lower half chooses the slot in a table: equal lower halves put all keys in one place."""
    hash_of = [(low, high) for low, high in zip(lows, (7, 2**63, 11, 0, 2**64 - 1), strict=True)]
    records, blobs, seen = [], [], 0
    for split, keys in enumerate(splits):
        first_dirty = min(max(clean - seen, 0), len(keys))
        blobs += blobs_of(keys, split, first_dirty, hash_of, buckets)
        records += [
            KeyedRecord(b"%d" % key, split, number, number >= first_dirty)
            for number, key in enumerate(keys)
        ]
        seen += len(keys)
    assert resolved(blobs, seed) == survivors(records)


@settings(max_examples=60, deadline=None)
@given(
    segments=st.lists(
        st.lists(
            st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=4), max_size=5
        ),
        min_size=1,
        max_size=3,
    ),
    clean=st.integers(0, 25),
    bucket_records=st.sampled_from((1, 4, 10**6)),
    split_bytes=st.sampled_from((1, 150, 10**6)),
    codec=st.sampled_from((Codec.NONE, Codec.LZ4)),
    seed=st.integers(0, 2**16),
)
def test_scanning_real_logs_matches_a_dictionary(
    segments: list[list[list[int | None]]],
    clean: int,
    bucket_records: int,
    split_bytes: int,
    codec: Codec,
    seed: int,
) -> None:
    """Records without a key (None) are in no blob: they do not survive (S5.5)."""
    logs: dict[int, list[bytes]] = {}
    keys: list[bytes | None] = []
    for batches in segments:
        base, encoded = len(keys), []
        for some in batches:
            names = [None if key is None else b"key-%d" % key for key in some]
            encoded.append(
                batch(*(record(len(keys) + i, name) for i, name in enumerate(names)), codec=codec)
            )
            keys += names
        logs[base] = encoded
    with TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "SPLIT_BYTES", split_bytes)
        job = job_of(
            make_partition(Path(home) / "t-0", logs),
            first_dirty_offset=clean,
            bucket_records=bucket_records,
        )
        blobs = [
            pair for number in range(len(job.splits)) for pair in scan_split(job, number, SECRET)
        ]
        assert {bucket for bucket, _ in blobs} <= set(range(job.buckets))
        where = [
            (number, i) for number, split in enumerate(job.splits) for i in range(split.records)
        ]
        expected = survivors(
            [
                KeyedRecord(key, *at, dirty=offset >= clean)
                for offset, (key, at) in enumerate(zip(keys, where, strict=True))
                if key is not None
            ]
        )
        assert resolved(blobs, seed) == expected


def test_split_sends_last_dirty_and_every_clean_record_of_a_key(
    tmp_path: Path,
) -> None:
    log = [batch(*(record(offset, b"same") for offset in range(6)))]
    job = job_of(make_partition(tmp_path / "t-0", {0: log}), first_dirty_offset=2)
    sent = {
        blob.dirty: np.frombuffer(blob.numbers, np.uint32).tolist()
        for _, blob in scan_split(job, 0, SECRET)
    }
    assert sent == {True: [5], False: [0, 1]}


def test_split_sends_twenty_bytes_per_key_and_no_values(tmp_path: Path) -> None:
    log = [batch(*(record(offset, b"key-%d" % offset, b"secret value") for offset in range(50)))]
    job = job_of(make_partition(tmp_path / "t-0", {0: log}))
    [(_, blob)] = scan_split(job, 0, SECRET)
    assert (len(blob.hashes), len(blob.numbers)) == (16 * 50, 4 * 50)
    assert b"secret" not in blob.hashes + blob.numbers


def test_another_secret_changes_hashes_but_not_survivors(tmp_path: Path) -> None:
    log = [batch(*(record(offset, b"key-%d" % (offset % 7)) for offset in range(40)))]
    job = job_of(make_partition(tmp_path / "t-0", {0: log}))
    one, other = (list(scan_split(job, 0, secret)) for secret in (SECRET, (1, 2)))
    assert one[0][1].hashes != other[0][1].hashes
    assert resolved(one, 0) == resolved(other, 0) == {(0, number) for number in range(33, 40)}
