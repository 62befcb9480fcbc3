"""Blobs are returned unchanged, from the shuffle and from files."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.runtime.spool import Spooled, joined, spooling, stored

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


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_tasks_on_one_machine_share_a_directory_during_the_job(tmp_path: Path, master: str) -> None:
    with spooling(master, beside=str(tmp_path)) as directory:
        assert directory is not None
        stored(directory, np.arange(3), [0, 3])
        assert [path.parent.parent for path in tmp_path.glob("*/*")] == [tmp_path]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("master", [None, "local-cluster[2,1,1024]", "spark://host:7077", "yarn"])
def test_tasks_on_several_machines_have_no_directory(tmp_path: Path, master: str | None) -> None:
    with spooling(master, beside=str(tmp_path)) as directory:
        assert directory is None
    assert not [*tmp_path.iterdir()]
