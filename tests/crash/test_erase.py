"""A crash at any instant of an erasure leaves each segment old or new. The next erasure does the
rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.crash.logs import leftovers
from tests.crash.replay import RecordingStorage, crash_points
from tests.crash.runs import content_of, read_log
from tests.crash.small_log import (
    END,
    INTERVAL_BYTES,
    NAME,
    NOW,
    SEGMENTS,
    make_small_log,
    segment_at,
)
from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from tests.unit.policy.states import config
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import StagedGroup, swap_group
from winnow.logdir.listing import list_segments
from winnow.logdir.names import LOG, segment_file
from winnow.storage.local import LocalStorage
from winnow.verbs.erase.segment import SegmentWork, Sought, rewrite_segment, scan_segment
from winnow.wire.key_search import key_set_of

STORAGE = LocalStorage()
CONFIG = {"index.interval.bytes": INTERVAL_BYTES}
KEYS = frozenset([b"b", b"j", b"k", b"r"])
"""These keys empty the batch with a producer id and a whole segment. One segment has none of them.
"""
SET = key_set_of(sorted(KEYS), (1, 2))


def stage(directory: Path) -> list[StagedGroup]:
    """Every closed segment that holds one of the keys, rewritten, as the tasks of a run do it."""
    staging = directory / ".winnow-run"
    staging.mkdir(exist_ok=True)
    works = [
        SegmentWork(
            directory=str(directory),
            staging=str(staging),
            segment=segment,
            end_offset=following.base_offset,
            config=config(index_interval_bytes=INTERVAL_BYTES),
        )
        for segment, following in pairwise(list_segments(STORAGE, str(directory)).segments)
    ]
    return [
        rewrite_segment(work, SET)[0]
        for work in works
        if scan_segment(work, Sought(SET)).matches.records
    ]


def erasure(root: Path) -> Callable[[RecordingStorage, Path], None]:
    """Stages it, and returns what commits it, in a copy of the directory as well."""
    staged = stage(root / NAME)

    def act(storage: RecordingStorage, where: Path) -> None:
        directory = str(where / NAME)
        storage.fsync_dir(directory)
        for group in staged:
            moved = replace(
                group,
                sources=tuple(replace(source, log_stamp=()) for source in group.sources),
                paths={
                    suffix: path.replace(str(root), str(where))
                    for suffix, path in group.paths.items()
                },
            )
            swap_group(storage, directory, moved)
        remove_staging(storage, f"{directory}/.winnow-run")

    return act


@pytest.fixture(scope="module")
def small(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_log(tmp_path_factory.mktemp("small"), kafka)


@pytest.mark.parametrize("out_of_order", [False, True])
def test_each_segment_is_old_or_new_and_next_erasure_finishes(
    small: Path, kafka: Kafka, tmp_path: Path, *, out_of_order: bool
) -> None:
    pristine, root, whole = small / NAME, tmp_path / "root", tmp_path / "whole"
    copy_tree(small, root)
    act = erasure(root)
    copy_tree(root, whole)
    act(RecordingStorage(whole), whole)
    # A loader that completes a swap takes the producer snapshot at its base along, and so does
    # recovery (S6.3).
    wanted = content_of(whole / NAME, snapshots=False)
    bases = [segment_at(number) for number in range(len(SEGMENTS))]
    changed = [
        base
        for base in bases
        if (whole / NAME / log_of(base)).read_bytes() != (pristine / log_of(base)).read_bytes()
    ]
    assert len(changed) == 7
    before = read_log(pristine)
    must_stay = {r.offset for r in before.records if r.key not in KEYS or r.offset >= bases[-1]}
    points = 0
    for point in crash_points(
        root, tmp_path / "crash", act, out_of_order=out_of_order, every=20 if out_of_order else 3
    ):
        directory, copy = point.root / NAME, tmp_path / f"kafka-{points}" / NAME
        if points % 15 == 0:
            copy.parent.mkdir()
            copy_tree(directory, copy)
        recover(STORAGE, str(directory))
        assert leftovers(STORAGE, str(directory)) == (), point.label
        assert list_segments(STORAGE, str(directory)).problems == (), point.label
        for base in bases:
            found = (directory / log_of(base)).read_bytes()
            assert found in ((pristine / log_of(base)).read_bytes(), wanted[log_of(base)]), (
                point.label
            )
        log = read_log(directory)
        assert log.end == before.end == END, point.label
        assert must_stay <= log.by_offset.keys(), point.label
        assert log.by_offset.items() <= before.by_offset.items(), point.label
        if copy.exists():
            loaded = kafka.load(copy, now=NOW, config=CONFIG)
            assert loaded.error is None, point.label
            assert loaded.state["end_offset"] == END, point.label
            assert {path.name: path.read_bytes() for path in copy.glob("*.log")} == {
                log_of(base): (directory / log_of(base)).read_bytes() for base in bases
            }, point.label
        for group in stage(directory):
            swap_group(STORAGE, str(directory), group)
        remove_staging(STORAGE, f"{directory}/.winnow-run")
        assert content_of(directory, snapshots=False) == wanted, point.label
        points += 1
    assert points > 25


def log_of(base: int) -> str:
    return segment_file(base, LOG)


def test_kafka_replays_same_state_of_every_producer(
    small: Path, kafka: Kafka, tmp_path: Path
) -> None:
    """Kafka replays the batches alone, as after a crash. The headers of emptied batches keep what
    their records did.
    """
    copies = [tmp_path / name for name in ("before", "after")]
    for copy in copies:
        copy_tree(small, copy)
    erasure(copies[1])(RecordingStorage(copies[1]), copies[1])
    states = []
    for copy in copies:
        for snapshot in (copy / NAME).glob("*.snapshot"):
            snapshot.unlink()
        loaded = kafka.load(copy / NAME, unclean=True, now=NOW, config=CONFIG)
        assert loaded.error is None
        dump = kafka.dump(copy / NAME)
        state = {name: value for name, value in loaded.state.items() if name != "bytes"}
        states.append((state, [line for line in dump if line["t"] in ("snapshot", "epochs")]))
    assert states[0] == states[1]
    assert any(line["t"] == "snapshot" for line in states[0][1])
