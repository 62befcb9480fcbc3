"""A log that a start on a full disk has emptied is no sign of a torn copy. Its `.deleted` files
have the only copy of records: nothing is changed beside them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from winnow.errors import LostSegmentError
from winnow.logdir.listing import list_segments, resolve
from winnow.logdir.survey import survey_log_dirs
from winnow.logdir.torn import behind_in
from winnow.state import PartitionState, TopicPartition
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_base("4.3.1", "alone", tmp_path / "r")
    (tmp_path / "r" / "a" / ".kafka_cleanshutdown").unlink()
    return tmp_path / "r" / "a"


def behind(root: Path, end: int) -> tuple[str, ...]:
    [log_dir] = survey_log_dirs(Places(), [str(root)])
    at = TopicPartition("d", 0)
    state: PartitionState = resolve(
        list_segments(LocalStorage(), f"{root}/d-0"),
        log_dir=str(root),
        topic_partition=at,
        checkpoints=log_dir.checkpoints,
        log_end_offset=end,
        clean_shutdown=False,
    )
    return behind_in(log_dir, {state.directory: state})


def test_log_below_its_high_watermark_is_one_unless_its_segments_are_deleted_files(
    root: Path,
) -> None:
    *_, before, last = sorted((root / "d-0").glob("*.log"))
    end = int(last.stem)
    for suffix in (".log", ".index", ".timeindex"):
        (root / "d-0" / f"{last.stem}{suffix}").rename(
            root / "d-0" / f"{last.stem}{suffix}.deleted"
        )
    assert before.exists()
    with pytest.raises(LostSegmentError, match="may have the only copy"):
        behind(root, end)
    assert behind(root, 150) == ()
    (root / "d-0" / f"{last.stem}.log.deleted").unlink()
    assert behind(root, end) == ("d-0",)
