"""Blobs are returned unchanged, from the shuffle and from files."""

from __future__ import annotations

import os
import random
import resource
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.runtime import spool
from winnow.runtime.spool import Spooled, joined, spooling, stored, written
from winnow.wire.buffers import Array


def placed(directory: Path, array: Array) -> Spooled:
    [blob] = written(str(directory), [array])
    return blob


BOUNDS = st.lists(st.integers(0, 50), min_size=1, max_size=9).map(sorted)


@given(bounds=BOUNDS, order=st.randoms(use_true_random=False), in_files=st.booleans())
def test_blobs_are_joined_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    bounds: list[int],
    order: random.Random,
    *,
    in_files: bool,
) -> None:
    rows = np.random.default_rng(0).integers(0, 2**64, (50, 2), np.uint64)
    directory = str(tmp_path_factory.getbasetemp()) if in_files else None
    blobs = stored(directory, rows, bounds)
    assert [isinstance(blob, Spooled) for blob in blobs] == [in_files] * (len(bounds) - 1)
    picked = order.choices(range(len(blobs)), k=5) if blobs else []
    wanted = [rows[start:end] for start, end in pairwise(bounds)]
    found = joined([blobs[i] for i in picked], np.uint64).reshape(-1, 2)
    assert np.array_equal(found, np.concatenate([rows[:0], *(wanted[i] for i in picked)]))
    assert not found.flags.writeable


def test_truncated_file_is_an_error(tmp_path: Path) -> None:
    (blob,) = stored(str(tmp_path), np.arange(10, dtype=np.uint32), [2, 10])
    assert isinstance(blob, Spooled)
    Path(blob.path).write_bytes(bytes(30))
    with pytest.raises(OSError, match="10 bytes are missing before byte 40"):
        joined([blob], np.uint32)


def test_small_blobs_of_a_process_share_a_file(tmp_path: Path) -> None:
    rows = [np.full(5, number) for number in range(20)]
    blobs = [placed(tmp_path, row) for row in rows]
    assert len({*tmp_path.iterdir()}) == 1
    for row, blob in zip(rows, blobs, strict=True):
        assert np.array_equal(joined([blob], np.int64), row)


def test_blob_begins_a_file_after_one_that_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "_FILE_BYTES", 30)
    blobs = [placed(tmp_path, np.full(2, number)) for number in range(4)]
    assert [blob.start for blob in blobs] == [0, 16, 0, 16]
    assert np.array_equal(joined(blobs, np.int64), np.repeat(np.arange(4), 2))


def test_threads_and_forks_have_files_of_their_own(tmp_path: Path) -> None:
    def fill(number: int) -> list[Spooled]:
        return [placed(tmp_path, np.full(7, number)) for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(fill, range(4))]
    child = os.fork()
    if not child:
        fill(9)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    found.append(fill(4))
    for number, blobs in enumerate(found):
        assert (joined(blobs, np.int64) == number).all()


def test_failed_write_leaves_earlier_blobs_and_no_bytes(tmp_path: Path) -> None:
    first = placed(tmp_path, np.arange(10))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match=str(tmp_path)):
            placed(tmp_path, np.arange(10))
        with pytest.raises(OSError, match=str(tmp_path)):
            placed(tmp_path, np.arange(100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [80]
    second = placed(tmp_path, np.arange(3))
    assert np.array_equal(joined([first, second], np.int64), [*range(10), *range(3)])


def test_each_array_of_one_write_is_read_alone(tmp_path: Path) -> None:
    arrays = [np.arange(3), np.empty(0, np.uint8), np.full(2, 7, np.uint32)]
    for array, blob in zip(arrays, written(str(tmp_path), arrays), strict=True):
        assert np.array_equal(joined([blob], array.dtype.type), array)


def test_removed_file_is_followed_by_another(tmp_path: Path) -> None:
    os.unlink(placed(tmp_path, np.arange(3)).path)
    blob = placed(tmp_path, np.arange(4))
    assert np.array_equal(joined([blob], np.int64), np.arange(4))


def context(master: str | None, directory: Path) -> Any:
    return SimpleNamespace(master=master, _temp_dir=str(directory))


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_tasks_on_one_machine_share_a_directory_during_the_job(tmp_path: Path, master: str) -> None:
    with spooling(context(master, tmp_path)) as directory:
        assert directory is not None
        stored(directory, np.arange(3), [0, 3])
        assert [path.parent.parent for path in tmp_path.glob("*/*")] == [tmp_path]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("master", [None, "local-cluster[2,1,1024]", "spark://host:7077", "yarn"])
def test_tasks_on_several_machines_have_no_directory(tmp_path: Path, master: str | None) -> None:
    with spooling(context(master, tmp_path)) as directory:
        assert directory is None
    assert not [*tmp_path.iterdir()]


def test_removing_a_part_keeps_the_rest_of_the_spool(tmp_path: Path) -> None:
    whole = str(tmp_path)
    part = spool.part_of(whole)
    assert part is not None
    assert Path(part).parent == tmp_path
    spool.remove_part(part, whole)
    spool.remove_part(whole, whole)
    assert list(tmp_path.iterdir()) == []
    assert spool.part_of(None) is None
    missing = str(tmp_path / "missing")
    assert spool.part_of(missing) == missing, "no space, or no inode"
