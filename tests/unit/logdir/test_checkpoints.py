"""Cases 66 and 91; S1.5."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from winnow.errors import CorruptLogError
from winnow.logdir import checkpoints
from winnow.logdir.checkpoints import (
    _writes_of,
    fold_leader_epochs,
    read_leader_epochs,
    read_offset_checkpoint,
    update_offset_checkpoint,
    write_leader_epochs,
)
from winnow.runtime.joint_writes import JointWrites
from winnow.start.small_files import checkpoint_problem
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
A, B, C = TopicPartition("a", 0), TopicPartition("b.x_y-z", 12), TopicPartition("c", 3)


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text(text)
    return str(path)


def test_case_66_update_add_and_remove_keep_other_entries(tmp_path: Path) -> None:
    path = _file(tmp_path, "0\n2\nb.x_y-z 12 99\na 0 1234\n")
    assert update_offset_checkpoint(STORAGE, path, {A: 2000, C: 5})
    assert Path(path).read_text() == "0\n3\nb.x_y-z 12 99\na 0 2000\nc 3 5\n"
    assert update_offset_checkpoint(STORAGE, path, {B: None})
    assert Path(path).read_text() == "0\n2\na 0 2000\nc 3 5\n"
    assert not list(tmp_path.glob("*.tmp"))


def test_unchanged_entries_are_not_written(tmp_path: Path) -> None:
    path = _file(tmp_path, "0\n1\na   0   7")
    assert not update_offset_checkpoint(STORAGE, path, {A: 7, C: None})
    assert Path(path).read_text() == "0\n1\na   0   7"


@pytest.mark.parametrize("text", ["", "0\n3\nb.x_y-z 12 99\na 0 7\nc 3 5\n", "0\n1\nx 0 5\n"])
def test_order_of_updates_leaves_no_trace(tmp_path: Path, text: str) -> None:
    """Commits end in any order, and a crash may come between any two of them."""
    new = [TopicPartition(topic, number) for topic in ("a", "bb", "z") for number in (1, 10, 2)]
    left = set()
    for seed in range(20):
        path = _file(tmp_path, text)
        order = random.Random(seed).sample(new, len(new))
        for some in (order[: seed % 5], order[seed % 5 :]):
            update_offset_checkpoint(STORAGE, path, {key: key.partition for key in some})
        left.add(Path(path).read_text())
    assert len(left) == 1
    kept = [line for line in text.splitlines()[2:] if line in left.copy().pop().splitlines()]
    assert kept == text.splitlines()[2:]


def test_file_that_was_changed_since_it_was_written_is_read_again(tmp_path: Path) -> None:
    path = _file(tmp_path, "0\n1\na 0 7\n")
    update_offset_checkpoint(STORAGE, path, {TopicPartition("t", 0): 1})
    assert Path(path).read_text() == "0\n2\na 0 7\nt 0 1\n"
    Path(path).write_text("0\n2\na 0 8\nt 0 1\n")
    update_offset_checkpoint(STORAGE, path, {TopicPartition("t", 0): 2})
    assert Path(path).read_text() == "0\n2\na 0 8\nt 0 2\n"


def test_threads_update_one_file_together(tmp_path: Path) -> None:
    """Each finds its entry on stable storage when its call returns. One write covers several."""
    path = _file(tmp_path, "0\n1\na 0 7\n")
    storage = _Slow()

    def update(number: int) -> int:
        update_offset_checkpoint(storage, path, {TopicPartition("t", number): number})
        return read_offset_checkpoint(STORAGE, path)[TopicPartition("t", number)]

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(update, range(64))) == list(range(64))
    assert read_offset_checkpoint(STORAGE, path) == {
        A: 7,
        **{TopicPartition("t", number): number for number in range(64)},
    }
    assert storage.writes < 64


def test_threads_that_write_a_checkpoint_first_share_its_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    class Meeting(JointWrites[Any]):
        def __init__(self, write: Callable[..., Sequence[bool]]) -> None:
            both.wait(30)
            super().__init__(write)

    monkeypatch.setattr(checkpoints, "JointWrites", Meeting)
    path = _file(tmp_path, "0\n1\na 0 7\n")
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(_writes_of, [path, path])
    assert one is other


def test_write_that_failed_halfway_is_synced_by_the_retry(tmp_path: Path) -> None:
    """The sync after the rename of several entries fails. The file has them, so nothing seems to
    change, but a power failure may still lose them.
    """
    path = _file(tmp_path, "0\n1\na 0 7\n")
    storage = _Slow(fails_at=2)

    def update(number: int) -> None:
        update_offset_checkpoint(storage, path, {TopicPartition("t", number): number})

    with ThreadPoolExecutor(8) as pool:
        storage.go_on.clear()
        first = pool.submit(update, 0)
        assert storage.begun.wait(30)
        others = [pool.submit(update, number) for number in range(1, 8)]
        while len(_writes_of(path)._queue) < len(others):
            time.sleep(0.001)
        storage.go_on.set()
        assert [future.exception() for future in (first, *others)] == [None] * 8
    assert storage.syncs == 2 + len(others)
    assert storage.writes == storage.syncs


class _Slow(LocalStorage):
    """A disk whose syncs of a directory take 5 ms. The one with number `fails_at`, from 1 on,
    fails.
    """

    def __init__(self, *, fails_at: int = 0) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.writes = self.syncs = 0
        self._fails_at = fails_at

    def create(self, path: str, data: bytes, *, mtime_ns: int | None = None) -> None:
        self.writes += 1
        self.begun.set()
        assert self.go_on.wait(30)
        super().create(path, data, mtime_ns=mtime_ns)

    def fsync_dir(self, path: str) -> None:
        time.sleep(0.005)
        self.syncs += 1
        if self.syncs == self._fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        super().fsync_dir(path)


def test_missing_or_empty_file_has_no_entries(tmp_path: Path) -> None:
    assert read_offset_checkpoint(STORAGE, f"{tmp_path}/none") == {}
    assert read_offset_checkpoint(STORAGE, _file(tmp_path, "")) == {}


def test_new_file_takes_the_mode_of_meta_properties(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("")
    (tmp_path / "meta.properties").chmod(0o664)
    path = f"{tmp_path}/cleaner-offset-checkpoint"
    assert update_offset_checkpoint(STORAGE, path, {A: 1})
    assert Path(path).stat().st_mode & 0o777 == 0o664
    Path(path).chmod(0o640)
    assert update_offset_checkpoint(STORAGE, path, {A: 2})
    assert Path(path).stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n",
        "0\nx\n",
        "0\n2\na 0 1\n",
        "0\n1\na 0 1\nc 3 5\n",
        "0\n1\na 0\n",
        "0\n1\na 0 1 2\n",
        "0\n1\na zero 1\n",
        "0\n1\na 0 -+1\n",
        "0\n1\na 0 --1\n",
        "0\n1\na 0 -\n",
        "0\n1\na 0 9223372036854775808\n",
        "0\n1\na 2147483648 1\n",
        "0\n1\n\n",
    ],
)
def test_case_66_malformed_file_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(CorruptLogError, match="malformed checkpoint"):
        read_offset_checkpoint(STORAGE, path)
    with pytest.raises(CorruptLogError):
        update_offset_checkpoint(STORAGE, path, {A: 3})
    assert Path(path).read_text() == text


def test_what_a_broker_reads_concerns_no_other_partition(tmp_path: Path) -> None:
    path = _file(tmp_path, "0\n3\na 0 1\nc 3 5\na 0 2\n")
    assert read_offset_checkpoint(STORAGE, path) == {A: 2, C: 5}
    with pytest.raises(CorruptLogError, match="each partition once"):
        read_offset_checkpoint(STORAGE, path, strict=True)
    assert update_offset_checkpoint(STORAGE, path, {C: 6})
    assert Path(path).read_text() == "0\n2\na 0 2\nc 3 6\n"
    assert read_offset_checkpoint(STORAGE, _file(tmp_path, "0\n")) == {}


def test_negative_offset_is_read_and_kept(tmp_path: Path) -> None:
    path = _file(tmp_path, "0\n2\na 0 -1\nc 3 5\n")
    assert read_offset_checkpoint(STORAGE, path) == {A: -1, C: 5}
    assert update_offset_checkpoint(STORAGE, path, {C: 6})
    assert Path(path).read_text() == "0\n2\na 0 -1\nc 3 6\n"


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0\n1\n\xff 0 1\n")
    with pytest.raises(CorruptLogError, match="not text"):
        read_offset_checkpoint(STORAGE, f"{tmp_path}/x")


@pytest.mark.parametrize(
    ("epochs", "start", "folded"),
    [
        (((0, 0), (1, 5), (2, 10)), 5, ((1, 5), (2, 10))),
        (((0, 0), (1, 7), (2, 10)), 5, ((0, 5), (1, 7), (2, 10))),
        (((0, 0), (1, 7), (2, 10)), 12, ((2, 12),)),
        (((3, 8),), 5, ((3, 8),)),
        ((), 5, ()),
    ],
)
def test_case_91_epochs_below_the_log_start_are_folded(
    epochs: tuple[tuple[int, int], ...], start: int, folded: tuple[tuple[int, int], ...]
) -> None:
    assert fold_leader_epochs(epochs, start) == folded


def test_epochs_are_written_in_the_format_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 50\n")
    epochs = read_leader_epochs(STORAGE, str(tmp_path))
    assert epochs == ((0, 0), (4, 50))
    write_leader_epochs(STORAGE, str(tmp_path), fold_leader_epochs(epochs, 30))
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 30\n4 50\n"


@pytest.mark.parametrize("lines", ["1 0\n1 5", "2 0\n1 5", "1 5\n2 4", "1\n2", "-1 0\n0 1"])
def test_descending_epochs_are_refused(tmp_path: Path, lines: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(f"0\n2\n{lines}\n")
    with pytest.raises(CorruptLogError, match="malformed"):
        read_leader_epochs(STORAGE, str(tmp_path))


READ_BY_JAVA = {
    "0\r1\ra 0 7\r": 7,
    "0\r\n1\r\na 0 7\r\n": 7,
    "0\n1\na \t\v 0 7 ": 7,
    "0\n1\na \u0660 \u0661\u0662": 12,
    "+0\n01\na 0 +7\n": 7,
}
NOT_READ_BY_JAVA = (
    "0\n1\n a 0 7\n",
    "0\n1\n\ta 0 7\n",
    " 0\n1\na 0 7\n",
    "0\n1 \na 0 7\n",
    "0\n1\na\u00a00 7\n",
    "0\n1\na\x1c0 7\n",
    "0\n1\na 0 7\x1e\n",
    "0\n1\na 0 7\n\n",
    "0\n1\na 0 \U0001d7d8\n",
    "0\n1\n   \n",
)


@pytest.mark.parametrize("text", READ_BY_JAVA, ids=ascii)
def test_checkpoint_is_read_as_java_reads_it(tmp_path: Path, text: str) -> None:
    """Lines end as for a BufferedReader, and words are split at ASCII white space, untrimmed. Seen
    on 4.3.1: carriage returns and other digits are read; a space before a line, a no-break space
    and U+001C take the directory offline.
    """
    path = _file(tmp_path, "")
    Path(path).write_bytes(text.encode())
    assert read_offset_checkpoint(STORAGE, path) == {A: READ_BY_JAVA[text]}
    assert checkpoint_problem(text.encode(), words=3) is None


@pytest.mark.parametrize("text", NOT_READ_BY_JAVA, ids=ascii)
def test_checkpoint_that_java_does_not_read_is_malformed(tmp_path: Path, text: str) -> None:
    path = _file(tmp_path, "")
    Path(path).write_bytes(text.encode())
    with pytest.raises(CorruptLogError, match="malformed checkpoint"):
        read_offset_checkpoint(STORAGE, path)
    assert checkpoint_problem(text.encode(), words=3) is not None


def test_leader_epochs_with_a_space_before_a_line_are_malformed(tmp_path: Path) -> None:
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_text("0\n1\n 0 75\n")
    with pytest.raises(CorruptLogError, match="expected 2 words, found 3"):
        read_leader_epochs(STORAGE, str(tmp_path))
    assert checkpoint_problem(file.read_bytes(), words=2) is not None
    file.write_bytes(b"0\r1\r0 75\r")
    assert read_leader_epochs(STORAGE, str(tmp_path)) == ((0, 75),)
    assert checkpoint_problem(file.read_bytes(), words=2) is None
