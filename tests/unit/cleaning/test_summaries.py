"""What earlier runs wrote about segments: a list that does not fit is no list."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from winnow.cleaning.summaries import store
from winnow.cleaning.summaries.store import Kept, read_list
from winnow.storage.private import make_private

FORMAT = store._FORMAT


def listed(tmp_path: Path, told: object) -> Kept:
    place = tmp_path / "t-0"
    make_private(str(place))
    body = json.dumps(told)
    (place / store._LIST).write_text(f"{body}\n{zlib.crc32(body.encode())}\n")
    return read_list(str(place))


def test_empty_list_is_read(tmp_path: Path) -> None:
    told = {"format": FORMAT, "segments": [], "unique": [7, []]}
    found = listed(tmp_path, told)
    assert found.unique is not None
    assert (found.segments, found.unique.end, found.unique.stamps) == ({}, 7, {})


@pytest.mark.parametrize(
    "told",
    [
        1,
        [],
        {},
        {"format": FORMAT - 1, "segments": [], "unique": None},
        {"format": FORMAT, "segments": 1, "unique": None},
        {"format": FORMAT, "segments": [1], "unique": None},
        {"format": FORMAT, "segments": [[]], "unique": None},
        {"format": FORMAT, "segments": ["text"], "unique": None},
        {"format": FORMAT, "segments": {"0": {}}, "unique": None},
        {"format": FORMAT, "segments": [{}], "unique": None},
        {"format": FORMAT, "segments": [{"stamps": []}], "unique": None},
        {"format": FORMAT, "segments": [], "unique": 1},
        {"format": FORMAT, "segments": [], "unique": []},
        {"format": FORMAT, "segments": [], "unique": [1, 2]},
    ],
    ids=json.dumps,
)
def test_list_of_another_shape_counts_as_missing(tmp_path: Path, told: object) -> None:
    assert listed(tmp_path, told) == Kept()
