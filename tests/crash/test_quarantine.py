"""After a crash at any instant of a quarantine, a segment has its damage or has lost it. If it has
lost it, the damage is set aside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.by_hand import INTERVAL_BYTES, NOW, make_log, one
from tests.crash.logs import leftovers
from tests.crash.replay import RecordingStorage, crash_points
from tests.crash.runs import files_of
from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from winnow.logdir.commit.keeping import begin_keeping, end_keeping
from winnow.logdir.commit.kept import read_kept
from winnow.logdir.commit.quarantine import (
    StagedQuarantine,
    commit_quarantine,
    stage_segment,
    staging_path,
)
from winnow.logdir.commit.recovery import recover
from winnow.logdir.damage import find_damage
from winnow.logdir.listing import list_segments, resolve
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.logdir.survey import Checkpoints
from winnow.state import PartitionState, TopicPartition
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
CONFIG = {"index.interval.bytes": INTERVAL_BYTES}
RUN = "run"
SEGMENTS = {
    0: [(0, "a"), (1, "z")],
    10: [(offset, "abcdefg"[offset - 10]) for offset in range(10, 17)],
    # Nothing of it is left.
    20: [(20, "a"), (21, "b")],
    30: [(30, "c")],
}
END = 31
DAMAGED = {10: [12, 13], 20: [20, 21]}
"""Offsets by base offset. A batch holds one record, and has the same size as any other."""
SIZE = len(one(10, "a"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_log(tmp_path / "log", SEGMENTS, end=END)
    for base, offsets in DAMAGED.items():
        path = root / "t-0" / segment_file(base, LOG)
        data = bytearray(path.read_bytes())
        for offset in offsets:
            data[(offset - base) * SIZE + 70] ^= 1
        path.write_bytes(data)
    return root


def state_of(root: Path) -> PartitionState:
    return resolve(
        list_segments(STORAGE, f"{root}/t-0"),
        log_dir=str(root),
        topic_partition=TopicPartition("t", 0),
        checkpoints=Checkpoints(cleaner={}, log_start={}, high_watermark={}),
        log_end_offset=END,
        clean_shutdown=True,
    )


def stage(root: Path) -> list[StagedQuarantine]:
    state = state_of(root)
    STORAGE.mkdir(staging_path(state.directory, RUN))
    return [
        stage_segment(
            STORAGE,
            state.directory,
            segment,
            find_damage(
                f"{state.directory}/{segment_file(segment.base_offset, LOG)}",
                segment.log_bytes,
                base_offset=segment.base_offset,
                end_offset=segment.base_offset + 10,
            ),
            staging=staging_path(state.directory, RUN),
            index_interval_bytes=INTERVAL_BYTES,
            segment_index_bytes=10_485_760,
        )
        for segment in state.segments
        if segment.base_offset in DAMAGED
    ]


def quarantine(root: Path, *, keep: bool) -> Callable[[RecordingStorage, Path], None]:
    """Stages the quarantine, and returns what commits it, in a copy of the directory as well."""
    staged, state = stage(root), state_of(root)

    def act(storage: RecordingStorage, where: Path) -> None:
        here = replace(state, log_dir=str(where))
        moved = [
            replace(
                item,
                source=replace(item.source, log_stamp=()),  # in a copy the files are others
                paths={
                    suffix: path.replace(str(root), str(where))
                    for suffix, path in item.paths.items()
                },
            )
            for item in staged
        ]
        # Directories that are made before any effect are not recorded.
        storage.fsync_dir(here.directory)
        if keep:
            begin_keeping(storage, here, run_id=RUN, now=NOW)
        commit_quarantine(storage, here, moved, run_id=RUN, now=NOW)
        if keep:
            end_keeping(storage, here.directory, run_id=RUN)

    return act


def without_damage(directory: Path, base: int) -> bytes:
    data = (directory / segment_file(base, LOG)).read_bytes()
    return b"".join(
        data[at * SIZE : (at + 1) * SIZE]
        for at, (offset, _) in enumerate(SEGMENTS[base])
        if offset not in DAMAGED[base]
    )


def check_set_aside(directory: Path, pristine: Path) -> None:
    """Every damaged byte is kept, and the manifest has its position."""
    aside = directory / f".winnow-quarantine-{RUN}"
    manifest = json.loads((aside / "manifest.json").read_text())
    found = {}
    for segment in manifest["segments"]:
        log = (pristine / segment_file(segment["base_offset"], LOG)).read_bytes()
        for damage in segment["damages"]:
            copy = (aside / damage["file"]).read_bytes()
            assert copy == log[damage["start"] : damage["end"]]
            assert hashlib.sha256(copy).hexdigest() == damage["sha256"]
            found[segment["base_offset"]] = (damage["start"] // SIZE, damage["end"] // SIZE)
    assert found == {
        base: (offsets[0] - base, offsets[-1] - base + 1) for base, offsets in DAMAGED.items()
    }


@pytest.mark.parametrize(("out_of_order", "keep"), [(False, False), (True, False), (False, True)])
def test_crash_leaves_each_segment_old_or_new(
    root: Path, kafka: Kafka, tmp_path: Path, *, out_of_order: bool, keep: bool
) -> None:
    pristine = tmp_path / "pristine" / "t-0"
    pristine.parent.mkdir()
    copy_tree(root / "t-0", pristine)
    old = {base: (pristine / segment_file(base, LOG)).read_bytes() for base in DAMAGED}
    new = {base: without_damage(pristine, base) for base in DAMAGED}
    act = quarantine(root, keep=keep)
    points, seen = 0, set()
    for point in crash_points(
        root, tmp_path / "crash", act, out_of_order=out_of_order, every=1 + (out_of_order or keep)
    ):
        directory, copy = point.root / "t-0", tmp_path / f"kafka-{points}" / "t-0"
        if points % (24 if out_of_order else 4) == 0:
            copy.parent.mkdir()
            copy_tree(directory, copy)
        recover(STORAGE, str(directory))
        assert leftovers(STORAGE, str(directory)) == (), point.label
        assert not recover(STORAGE, str(directory)), point.label
        assert list_segments(STORAGE, str(directory)).problems == (), point.label
        logs = {base: (directory / segment_file(base, LOG)).read_bytes() for base in DAMAGED}
        moved = frozenset(base for base in DAMAGED if logs[base] == new[base])
        assert all(logs[base] == old[base] for base in DAMAGED if base not in moved), point.label
        seen.add(moved)
        for base in set(DAMAGED) - moved:
            for suffix in (INDEX, TIMEINDEX):
                name = segment_file(base, suffix)
                assert (directory / name).read_bytes() == (pristine / name).read_bytes(), (
                    point.label
                )
        if moved:
            check_set_aside(directory, pristine)
        else:
            assert not list(directory.glob(".winnow*")), point.label
        if keep and moved:
            kept = read_kept(STORAGE, str(directory), RUN)
            assert {base for step in kept.steps for base in step.bases} == moved, point.label
        if copy.exists():
            loaded = kafka.load(copy, now=NOW, config=CONFIG)
            assert loaded.error is None, point.label
            assert loaded.state["end_offset"] == END, point.label
            assert files_of(copy, LOG) == files_of(directory, LOG), point.label
        points += 1
    assert seen == {frozenset(), frozenset({10}), frozenset(DAMAGED)}
    assert points > (50 if out_of_order else 25), f"only {points} crash points were tried"


def test_kafka_recovers_all_remaining_batches(root: Path, kafka: Kafka, tmp_path: Path) -> None:
    """From the batches alone, as after an unclean shutdown. If the damage were still in place,
    Kafka would truncate the log there.
    """
    damaged = tmp_path / "t-0"
    copy_tree(root / "t-0", damaged)
    assert kafka.load(damaged, unclean=True, now=NOW, config=CONFIG).state["end_offset"] < END
    quarantine(root, keep=False)(RecordingStorage(root), root)
    directory = root / "t-0"
    ours = {suffix: files_of(directory, suffix) for suffix in (LOG, INDEX, TIMEINDEX)}
    loaded = kafka.load(directory, unclean=True, now=NOW, config=CONFIG)
    assert loaded.error is None
    assert [line["o"] for line in loaded.records] == [0, 1, 10, 11, 14, 15, 16, 30]
    assert {suffix: files_of(directory, suffix) for suffix in ours} == ours
