"""The small files of a log directory take little memory, whatever they contain."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir import checkpoints
from winnow.logdir.checkpoints import read_leader_epochs, read_offset_checkpoint
from winnow.logdir.meta import read_meta
from winnow.logdir.snapshots import read_snapshot
from winnow.start.node_files import is_only_voter, quorum_state_problem
from winnow.start.small_files import checkpoint_problem
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
MIB = 2**20

OWN_PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
PEAK = """
import resource, sys
from winnow.cli import inspect, text
from winnow.storage.local import LocalStorage
from winnow.start.small_files import checkpoint_problem
from winnow.verbs.inspect.directories import describe_target, find_target
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
storage, path = LocalStorage(), sys.argv[1]
before = peak()
lines = 0
for file in describe_target(storage, find_target(storage, path), records=True):
    for line in file.lines:
        lines += 1
data = open(path, "rb").read()
checkpoint_problem(data, words=3 if "offset" in path else 2)
print(peak() - before, lines)
"""


def epochs(size: int) -> bytes:
    """Return a checkpoint with as many leader epochs as fit."""
    lines, used = [], 0
    while used < size - 30:
        lines.append(b"%d %d" % (len(lines), len(lines)))
        used += len(lines[-1]) + 1
    return b"0\n%d\n%s\n" % (len(lines), b"\n".join(lines))


def grown(path: Path) -> tuple[int, int]:
    """Return by how many MiB the memory grows to describe a file, and the number of its lines."""
    told = subprocess.check_output(
        [sys.executable, "-c", PEAK, str(path)], env=OWN_PATHS, text=True
    )
    memory, lines = map(int, told.split())
    return memory, lines


def test_leader_epochs_of_15_mb_are_refused_and_fewer_take_little(tmp_path: Path) -> None:
    """15 MB took 1.2 GiB."""
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(b"1 1\n" * 3_750_000)
    with pytest.raises(CorruptLogError, match="too large for its kind: expected at most 2097152"):
        read_leader_epochs(STORAGE, str(tmp_path))
    memory, lines = grown(path)
    assert (memory < 60, lines) == (True, 1)
    path.write_bytes(epochs(MIB // 2))
    memory, lines = grown(path)
    assert memory < 40
    assert lines > 40_000


@pytest.mark.parametrize(
    "content",
    [
        b"0\n5\n" + b"\n" * 8 * MIB,
        b"0\n1\n" + b"a " * 4 * MIB,
        b"0\n%d\n" % (8 * MIB) + b"\n" * 8 * MIB,
        b"0\n%d\n" % (MIB) + b"a 0 0\n" * MIB,
    ],
    ids=["empty lines", "a line of many words", "announced empty lines", "many entries"],
)
def test_offset_checkpoint_of_8_mib_takes_little_memory(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    path.write_bytes(content)
    memory, lines = grown(path)
    assert memory < 60  # the file four times: as bytes and as text, here and in `inspect`
    assert lines == 1


def test_offset_checkpoint_has_a_limit_of_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text("0\n3\na 0 1\na 1 1\na 2 1\n")
    assert len(read_offset_checkpoint(STORAGE, str(path))) == 3
    monkeypatch.setattr(checkpoints, "MOST_ENTRIES", 2)
    with pytest.raises(CorruptLogError, match=r"at most 2 entries, found 3 .*line 2\)"):
        read_offset_checkpoint(STORAGE, str(path))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", None),
        (b"0\r\n1\r1 5\r\n", None),
        (b"0\n1\n1 5", None),
        (b"0\n2\n1 5\n\n", "line 4 is malformed"),
        (b"0\n2\n1 5\n", "announces 2 entries and has 1"),
        (b"0\n1\n1 5 5 5\n", "line 3 is malformed"),
        (b"0\n0\n\n", "line 3 is malformed"),
        (b"0", None),
        (b"1", "first line is not version 0"),
        (b"0\n1\n0 5 \n", None),
        (b"0\n1\n 0 5\n", "line 3 is malformed"),
        (b"0\nx", "second line is not a number"),
        (b"\xff\n0", "is not text"),
    ],
)
def test_lines_are_those_of_java(data: bytes, words: str | None) -> None:
    found = checkpoint_problem(data, words=2)
    assert found is None if words is None else found is not None and words in str(found)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("meta.properties", lambda at: read_meta(STORAGE, str(at))),
        ("leader-epoch-checkpoint", lambda at: read_leader_epochs(STORAGE, str(at))),
        (f"{0:020d}.snapshot", lambda at: read_snapshot(STORAGE, f"{at}/{0:020d}.snapshot")),
    ],
)
def test_file_beyond_the_limit_of_its_kind_is_not_read(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(65 * MIB)
    with pytest.raises((CorruptLogError, UsageError), match="too large for its kind"):
        read(tmp_path)


def test_large_quorum_state_is_a_problem_of_the_start(tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_bytes(b"[" * 2 * MIB)
    assert is_only_voter(STORAGE, str(tmp_path), 1) is None
    problem = quorum_state_problem(STORAGE, str(tmp_path))
    assert problem is not None
    assert problem.startswith("quorum-state can't be read: a file is too large for its kind")
    (tmp_path / "quorum-state").write_bytes(b"[" * 2**20)
    assert is_only_voter(STORAGE, str(tmp_path), 1) is None
    assert quorum_state_problem(STORAGE, str(tmp_path)) == "quorum-state is no line of JSON"


@pytest.mark.parametrize("content", [b"a=b\\\n" * 2_000, b"\\\n" * 5_000, b" " * 9_000])
def test_largest_meta_properties_is_read_in_little_time(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "meta.properties").write_bytes(content[: 8 * 2**10])
    begin = time.process_time()
    assert read_meta(STORAGE, str(tmp_path)).is_anonymous
    assert time.process_time() - begin < 5
    (tmp_path / "meta.properties").write_bytes(content[: 8 * 2**10] + b"\n")
    with pytest.raises(UsageError, match="too large for its kind: expected at most 8192 bytes"):
        read_meta(STORAGE, str(tmp_path))
