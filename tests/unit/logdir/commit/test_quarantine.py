"""A segment without its damage keeps all other bytes and the source's times and owner, and gets new
indexes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.by_hand import INTERVAL_BYTES, make_log, one
from winnow.errors import CorruptLogError, VerificationError
from winnow.logdir.commit.quarantine import (
    StagedQuarantine,
    commit_quarantine,
    quarantine_path,
    stage_segment,
    staging_path,
)
from winnow.logdir.damage import Damage
from winnow.logdir.indexes.index import decode_offset_index
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.listing import list_segments, resolve
from winnow.logdir.names import INDEX, LOG, TXNINDEX, segment_file
from winnow.logdir.survey import Checkpoints
from winnow.state import PartitionState, TopicPartition
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
BATCHES = [one(offset, "k") for offset in range(8)]
SIZE = len(BATCHES[0])
ABORTED = encode_txn_index([AbortedTransaction(7, 1, 2, 3)])


@pytest.fixture
def state(tmp_path: Path) -> PartitionState:
    root = make_log(
        tmp_path / "log", {0: [(offset, "k") for offset in range(8)], 8: [(8, "k")]}, end=9
    )
    (root / "t-0" / segment_file(0, TXNINDEX)).write_bytes(ABORTED)
    return resolve(
        list_segments(STORAGE, f"{root}/t-0"),
        log_dir=str(root),
        topic_partition=TopicPartition("t", 0),
        checkpoints=Checkpoints(cleaner={}, log_start={}, high_watermark={}),
        log_end_offset=9,
        clean_shutdown=True,
    )


def stage(state: PartitionState, *damages: Damage) -> StagedQuarantine:
    staging = staging_path(state.directory, "run")
    STORAGE.ensure_dir(staging)
    return stage_segment(
        STORAGE,
        state.directory,
        state.segments[0],
        damages,
        staging=staging,
        index_interval_bytes=INTERVAL_BYTES,
        segment_index_bytes=10_485_760,
    )


def damage(first: int, end: int) -> Damage:
    return Damage(first * SIZE, end * SIZE, first, end)


@pytest.mark.parametrize(
    ("damages", "left"),
    [
        ([damage(3, 5)], [0, 1, 2, 5, 6, 7]),
        ([damage(0, 1), damage(7, 8)], [1, 2, 3, 4, 5, 6]),
        ([damage(1, 2), damage(2, 3)], [0, 3, 4, 5, 6, 7]),
        ([damage(0, 8)], []),
    ],
)
def test_staged_segment_has_all_batches_but_the_damaged(
    state: PartitionState, damages: list[Damage], left: list[int]
) -> None:
    staged = stage(state, *damages)
    source = Path(state.directory) / segment_file(0, LOG)
    assert Path(staged.paths[LOG]).read_bytes() == b"".join(BATCHES[at] for at in left)
    assert staged.log_bytes == len(left) * SIZE
    assert Path(staged.paths[TXNINDEX]).read_bytes() == ABORTED
    for path in map(Path, staged.paths.values()):
        assert path.stat().st_mtime_ns == source.stat().st_mtime_ns
        assert path.stat().st_mode == source.stat().st_mode
    data = Path(staged.paths[INDEX]).read_bytes()
    entries = decode_offset_index(data, "index", base_offset=0, log_bytes=staged.log_bytes or 1)
    assert bool(len(entries)) == bool(left)
    assert {left[int(at) // SIZE] for at in entries["position"]} == {
        int(at) for at in entries["offset"]
    }


def test_staged_segment_replaces_its_source(state: PartitionState) -> None:
    staged = stage(state, damage(3, 5))
    assert commit_quarantine(STORAGE, state, [staged], run_id="run", now=1) == 2 * SIZE
    directory = Path(state.directory)
    assert (directory / segment_file(0, LOG)).read_bytes() == b"".join(BATCHES[:3] + BATCHES[5:])
    moved = Path(quarantine_path(state.directory, "run"), f"{0:020d}-{3 * SIZE}-{5 * SIZE}")
    assert moved.read_bytes() == BATCHES[3] + BATCHES[4]
    listing = list_segments(STORAGE, state.directory)
    assert (listing.problems, listing.leftovers) == ((), ())


@pytest.mark.parametrize("change", ["written", "active"])
def test_changed_source_is_refused_and_nothing_is_moved(state: PartitionState, change: str) -> None:
    staged = stage(state, damage(3, 5))
    if change == "written":
        with (Path(state.directory) / segment_file(0, LOG)).open("ab") as file:
            file.write(b"x")
    else:
        staged = replace(staged, source=state.active)
    with pytest.raises(CorruptLogError):
        commit_quarantine(STORAGE, state, [staged], run_id="run", now=1)
    assert not STORAGE.exists(quarantine_path(state.directory, "run"))


def test_staged_segment_that_reads_back_differently_is_refused(
    state: PartitionState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate a disk that flips a bit between the write and the read."""

    def turn(path: str) -> None:
        data = bytearray(Path(path).read_bytes())
        data[SIZE] ^= 1
        Path(path).write_bytes(data)

    monkeypatch.setattr("winnow.logdir.commit.staged_segment.drop_cached", turn)
    with pytest.raises(VerificationError, match="not what was written"):
        stage(state, damage(3, 5))
