"""Read many files in one call, compared with one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.twins.files import read_small_files_plain
from winnow.storage.io_counters import MOVED
from winnow.storage.small_files import read_small_files


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 50))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kernel_agrees_with_twin(
    tmp_path: Path, descriptor: int, files: list[bytes], most: int
) -> None:
    names = [f"{number} ä" for number in range(len(files))]
    for name, content in zip(names, files, strict=True):
        (tmp_path / name).write_bytes(content)
    room = np.zeros(1000, np.uint8)
    read, opened = MOVED["read"], MOVED["files"]
    bounds = read_small_files(descriptor, names, most, room)
    assert bounds is not None
    heads = [bytes(room[begin:end]) for begin, end in pairwise(bounds)]
    assert heads == read_small_files_plain(descriptor, names, most)
    assert (MOVED["read"] - read, MOVED["files"] - opened) == (sum(map(len, heads)), len(files))


def test_unreadable_files_are_left_to_the_slow_path(tmp_path: Path, descriptor: int) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    (tmp_path / "directory").mkdir()
    for names in (["file", "missing"], ["file", "directory"]):
        assert read_small_files(descriptor, names, 100, np.empty(1000, np.uint8)) is None
    assert read_small_files(-1, ["file"], 100, np.empty(1000, np.uint8)) is None


@pytest.mark.parametrize(("size", "fits"), [(9, False), (10, False), (11, True)])
def test_files_that_may_exceed_the_room_are_not_read(
    tmp_path: Path, descriptor: int, size: int, *, fits: bool
) -> None:
    (tmp_path / "file").write_bytes(bytes(range(10)))
    room = np.full(size + 1, 77, np.uint8)
    assert (read_small_files(descriptor, ["file"], 100, room[:size]) is not None) is fits
    assert room[size] == 77


def test_no_descriptor_is_left_open(tmp_path: Path, descriptor: int) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    before = sorted(os.listdir("/proc/self/fd"))
    for names in (["file", "file"], ["file", "missing"]):
        read_small_files(descriptor, names, 100, np.empty(15, np.uint8))
    assert sorted(os.listdir("/proc/self/fd")) == before
