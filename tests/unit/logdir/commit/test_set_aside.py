"""Damaged bytes are copied aside in full, recorded and read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from winnow.errors import VerificationError
from winnow.logdir.commit.quarantine import (
    QUARANTINE_SUFFIX,
    quarantine_path,
    set_aside,
    settle_quarantine,
    staging_path,
)
from winnow.logdir.commit.staging import staging_run_id
from winnow.logdir.damage import Damage
from winnow.logdir.listing import list_segments, resolve
from winnow.logdir.names import LOG, segment_file
from winnow.logdir.survey import Checkpoints
from winnow.state import PartitionState, Segment, TopicPartition
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
RUN = "run"
LOGS = {0: b"abcdefgh", 10: b"ijklmnop", 20: b""}


@pytest.fixture
def state(tmp_path: Path) -> PartitionState:
    directory = tmp_path / "t-0"
    directory.mkdir()
    for base, data in LOGS.items():
        (directory / segment_file(base, LOG)).write_bytes(data)
    (directory / f".winnow-{RUN}-quarantine").mkdir()
    return resolve(
        list_segments(STORAGE, str(directory)),
        log_dir=str(tmp_path),
        topic_partition=TopicPartition("t", 0),
        checkpoints=Checkpoints(cleaner={}, log_start={}, high_watermark={}),
        log_end_offset=20,
        clean_shutdown=True,
    )


def damaged(state: PartitionState) -> list[tuple[Segment, list[Damage]]]:
    first, second, _ = state.segments
    return [(first, [Damage(1, 3, 0, 5), Damage(6, 8, 5, 10)]), (second, [Damage(0, 8, 10, 20)])]


def test_damaged_bytes_are_copied_and_recorded(state: PartitionState) -> None:
    assert set_aside(STORAGE, state, damaged(state), run_id=RUN, now=7) == 12
    aside = Path(quarantine_path(state.directory, RUN))
    files = {
        path.name: path.read_bytes() for path in aside.iterdir() if path.name != "manifest.json"
    }
    assert files == {
        "00000000000000000000-1-3": b"bc",
        "00000000000000000000-6-8": b"gh",
        "00000000000000000010-0-8": b"ijklmnop",
    }
    manifest = json.loads((aside / "manifest.json").read_text())
    told = [
        (s["base_offset"], [(d["file"], d["start"], d["end"]) for d in s["damages"]])
        for s in manifest["segments"]
    ]
    assert told == [
        (0, [("00000000000000000000-1-3", 1, 3), ("00000000000000000000-6-8", 6, 8)]),
        (10, [("00000000000000000010-0-8", 0, 8)]),
    ]


def test_copy_that_reads_back_differently_is_refused(state: PartitionState) -> None:
    class Failing(LocalStorage):
        """A disk that stores other bytes than it was given."""

        def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
            super().create(path, data[:-1] + b"?", mtime_ns=mtime_ns)

    with pytest.raises(VerificationError, match="differs from the original"):
        set_aside(Failing(), state, damaged(state), run_id=RUN, now=7)
    assert not STORAGE.exists(quarantine_path(state.directory, RUN))


def test_quarantine_is_removed_after_a_crash_if_the_log_is_whole(state: PartitionState) -> None:
    set_aside(STORAGE, state, damaged(state), run_id=RUN, now=7)
    settle_quarantine(STORAGE, state.directory, run_id=RUN)
    assert not STORAGE.exists(quarantine_path(state.directory, RUN))
    settle_quarantine(STORAGE, state.directory, run_id=RUN)


@pytest.mark.parametrize("change", ["shorter", "gone", "not understood"])
def test_quarantine_is_kept_after_a_crash_if_the_log_changed(
    state: PartitionState, change: str
) -> None:
    set_aside(STORAGE, state, damaged(state), run_id=RUN, now=7)
    log = Path(state.directory) / segment_file(10, LOG)
    if change == "shorter":
        log.write_bytes(b"")
    elif change == "gone":
        log.unlink()
    else:
        (Path(quarantine_path(state.directory, RUN)) / "manifest.json").write_text("{}")
    settle_quarantine(STORAGE, state.directory, run_id=RUN)
    assert STORAGE.exists(quarantine_path(state.directory, RUN))


def test_staging_directory_name_holds_the_run_id() -> None:
    name = staging_path("/d", RUN).rpartition("/")[2]
    assert staging_run_id(name, QUARANTINE_SUFFIX) == RUN
    assert staging_run_id(quarantine_path("/d", RUN).rpartition("/")[2], QUARANTINE_SUFFIX) is None
    assert staging_run_id(".winnow-run-keep", QUARANTINE_SUFFIX) is None
