"""Cut a segment into splits, sum each split up, and choose the splits that need no second read."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cleaning.partitions import (
    NOW,
    SECRET,
    batch,
    job_of,
    make_partition,
    record,
    records_in,
)
from tests.unit.cleaning.test_tally import plain_checksum
from winnow.cleaning.rewrite.filter import GroupFilter
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import rewrite_group
from winnow.errors import CorruptLogError
from winnow.logdir.names import LOG, segment_file
from winnow.scan import cut, cut_kernel, plain_cut
from winnow.scan.cut import DENSEST, sum_up
from winnow.scan.job import PartitionJob
from winnow.scan.resolve import Survivors, resolve_bucket
from winnow.scan.scan import scan_split
from winnow.wire.batch import BATCH, CONTROL, MAX_MAGIC, TRANSACTIONAL
from winnow.wire.buffers import as_rows


def random_rows(rng: random.Random) -> np.ndarray:  # type: ignore[type-arg]
    rows = np.zeros(rng.randrange(1, 20), BATCH)
    position = rng.randrange(1000)
    for row in rows:
        row["magic"] = rng.choice((2, 2, 2, 1, 0))
        size = rng.choice((61, 80, 400, 5000))
        row["position"], row["size"] = position, size
        row["base_offset"] = position
        row["last_offset"] = position + rng.randrange(600)
        row["record_count"] = rng.choice((0, 1, 2, 40, 700)) if row["magic"] == MAX_MAGIC else -1
        row["attributes"] = rng.choice((0, 1, 4)) | rng.choice((0, 0, 0, TRANSACTIONAL, CONTROL))
        position += size
    return rows


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6000), st.integers(1, 100), st.booleans())
def test_kernel_agrees_with_twin(
    seed: int,
    split_bytes: int,
    split_records: int,
    plain: bool,  # noqa: FBT001
) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng)
    start, in_split = int(rows["position"][0]) - rng.randrange(500), rng.randrange(50)
    both = []
    for twin in (cut_kernel.sum_up, plain_cut.sum_up):
        cuts = np.empty((len(rows), 3), np.int64)
        limits = DENSEST, split_bytes, split_records
        wild, count, *rest = twin(as_rows(rows), *limits, start, in_split, plain, cuts)
        both.append((wild, cuts[:count].tolist(), *rest))
    assert both[0] == both[1]


def test_only_v2_splits_without_transactions_or_markers_are_plain() -> None:
    for magic, attributes, plain in (
        (2, 0, 1),
        (2, 4, 1),
        (1, 0, 0),
        (2, TRANSACTIONAL, 0),
        (2, CONTROL, 0),
    ):
        rows = np.zeros(2, BATCH)
        rows["magic"], rows["size"], rows["position"] = 2, 61, (0, 61)
        rows["magic"][0], rows["attributes"][0] = magic, attributes
        cuts = np.empty((2, 3), np.int64)
        sum_up(rows, 122, 2**24, (0, 0, True), cuts)
        assert cuts[0].tolist() == [1, int(magic < MAX_MAGIC), plain]


def superseded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, PartitionJob, list[Survivors], bytes]:
    """Make a segment of three splits, one batch each, where the second keeps nothing. Return its
    log too.
    """
    log = [
        batch(record(0, b"a")),
        batch(record(1, b"b"), record(2, b"b")),
        batch(record(3, b"b"), record(4, b"c")),
    ]
    monkeypatch.setattr(cut, "SPLIT_BYTES", 1)
    directory = make_partition(tmp_path / "t-0", {0: log})
    job = job_of(directory)
    assert len(job.splits) == 3
    return directory, job, kept_of(job), b"".join(log)


def kept_of(job: PartitionJob) -> list[Survivors]:
    return list(
        resolve_bucket(
            blob for number in range(len(job.splits)) for _, blob in scan_split(job, number, SECRET)
        )
    )


def test_splits_that_keep_no_records_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, job, kept, log = superseded(tmp_path, monkeypatch)
    second = job.splits[1]
    damaged = log[: second.start] + b"\xff" * (second.end - second.start) + log[second.end :]
    (directory / segment_file(0, LOG)).write_bytes(damaged)
    group = rewrite_group(GroupOutput(job, job.groups[0], kept, now=NOW))()
    assert [one.offset for one in records_in(Path(group.staged.paths[LOG]).read_bytes())] == [
        0,
        3,
        4,
    ]
    assert (group.records_before, group.removed.superseded) == (5, 2)
    assert group.source_checksums == {0: plain_checksum(log, 0)}


def test_batch_that_changed_since_its_header_was_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, job, kept, log = superseded(tmp_path, monkeypatch)
    other = batch(record(3, b"b"), record(4, b"c", b"w"))
    third = job.splits[2]
    assert len(other) == third.end - third.start
    (directory / segment_file(0, LOG)).write_bytes(log[: third.start] + other)
    with pytest.raises(CorruptLogError, match="changed while it was being read"):
        rewrite_group(GroupOutput(job, job.groups[0], kept, now=NOW))()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32))
def test_skipping_splits_gives_the_same_result(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Covers kept headers of producers' last batches, the last batch of the round, and null
    keys.
    """
    rng = random.Random(seed)
    log, offset = [], 0
    for _ in range(rng.randrange(1, 12)):
        offset += rng.randrange(3)
        records = [
            record(offset + i, rng.choice((None, b"a", b"b", b"c")), rng.choice((b"v", None)))
            for i in range(rng.randrange(1, 4))
        ]
        offset += len(records)
        log.append(batch(*records, producer_id=rng.choice((-1, -1, 7, 8))))
    directory = make_partition(tmp_path_factory.mktemp("cut") / "t-0", {0: log})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "SPLIT_BYTES", rng.choice((1, 200)))
        job = job_of(directory)
    last = {
        producer: (rng.choice((None, rng.randrange(offset))), 0)
        for producer in (7, 8)
        if rng.random() < 0.7
    }
    job = replace(job, last_records=last, end_offset=rng.choice((offset, offset + 5)))
    found = [everything_of(job)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupFilter, "_keeps_nothing", lambda *_: False)
        found.append(everything_of(job))
    assert found[0] == found[1]


def everything_of(job: PartitionJob) -> tuple[object, ...]:
    output = GroupOutput(job, job.groups[0], kept_of(job), now=NOW)
    data = b"".join(map(bytes, output.read()))
    cleaned = output.cleaned(job.groups[0].segments[0], unchanged=False)
    return data, replace(cleaned, duration_ms=0), output.indexes()
