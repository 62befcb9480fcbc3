"""A crash while a checkpoint is written leaves the old one or the new one, nothing else (S1.5)."""

from __future__ import annotations

from pathlib import Path

from tests.crash.replay import RecordingStorage, crash_points
from winnow.logdir.checkpoints import read_offset_checkpoint, update_offset_checkpoint
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

_A, _B = TopicPartition("a", 0), TopicPartition("b", 1)
_NAME = "cleaner-offset-checkpoint"


def test_crash_leaves_old_or_new_checkpoint(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    log_dir.mkdir()
    (log_dir / _NAME).write_text("0\n2\na 0 5\nb 1 7\n")
    old, new = {_A: 5, _B: 7}, {_A: 50, _B: 7}

    def act(storage: RecordingStorage, root: Path) -> None:
        update_offset_checkpoint(storage, f"{root}/{_NAME}", {_A: 50})

    seen = []
    for point in crash_points(log_dir, tmp_path / "crash", act, out_of_order=True):
        found = read_offset_checkpoint(LocalStorage(), f"{point.root}/{_NAME}")
        assert found in (old, new), point.label
        seen.append(found)
        # A temporary file of the crashed run does no harm.
        act(RecordingStorage(point.root), point.root)
        assert (point.root / _NAME).read_text() == "0\n2\na 0 50\nb 1 7\n"
        assert [path.name for path in point.root.iterdir()] == [_NAME]
    assert old in seen
    assert new in seen
