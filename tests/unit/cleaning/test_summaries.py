"""What earlier runs wrote about segments: a list that does not fit is no list."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from winnow.cleaning.summaries import store
from winnow.cleaning.summaries.store import Summaries, UniqueKeys, opened, read_list, record
from winnow.scan.values import SegmentSummary
from winnow.storage.private import make_private

FORMAT = store._FORMAT


SUMMARY = {
    "base_offset": 0,
    "first_batch": 0,
    "next_offset": 50,
    "batches": 10,
    "records": 50,
    "checksum": 7,
    "keys": 50,
    "file": f"0-{'a' * 48}.keys",
    "index_interval_bytes": 512,
    "segment_index_bytes": 4096,
    "stamps": [[1, 2, 3, 4]] * 3,
}


def listed(tmp_path: Path, told: object) -> Summaries:
    return listed_text(tmp_path, json.dumps(told))


def listed_text(tmp_path: Path, body: str) -> Summaries:
    place = tmp_path / "t-0"
    make_private(str(place))
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
    assert listed(tmp_path, told) == Summaries()


def test_a_segment_of_a_list_is_read(tmp_path: Path) -> None:
    told = {"format": FORMAT, "segments": [SUMMARY], "unique": [50, [[0, SUMMARY["stamps"]]]]}
    found = listed(tmp_path, told)
    assert found.segments[0][0].file == SUMMARY["file"]
    assert found.unique == UniqueKeys(50, {0: [[1, 2, 3, 4]] * 3})


@pytest.mark.parametrize(
    "values",
    [
        {"stamps": None},
        {"stamps": []},
        {"stamps": [[1, 2, 3, "4"]] * 3},
        {"stamps": [[1, 2, 3, True]] * 3},
        {"file": 7},
        {"file": "../../secret"},
        {"file": f"50-{'a' * 48}.keys"},
        {"keys": "x" * 100},
        {"keys": 50.0},
        {"keys": 0},
        {"keys": 2**40},
        {"next_offset": 2**70},
        {"records": -1},
        {"records": True},
        {"checksum": {}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_list_with_a_value_that_no_run_writes_counts_as_missing(
    tmp_path: Path, values: dict[str, object]
) -> None:
    told = {"format": FORMAT, "segments": [SUMMARY | values], "unique": None}
    assert listed(tmp_path, told) == Summaries()


@pytest.mark.parametrize("unique", [[1.0, []], [-1, []], [1, [[0, []]]], [1, [["0", None]]]])
def test_a_list_with_other_unique_keys_counts_as_missing(tmp_path: Path, unique: object) -> None:
    assert listed(tmp_path, {"format": FORMAT, "segments": [], "unique": unique}) == Summaries()


def test_a_deep_list_counts_as_missing(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert listed_text(tmp_path, f'{{"format": {FORMAT}, "segments": {deep}}}') == Summaries()


def test_a_segment_without_one_of_its_files_is_not_listed(tmp_path: Path) -> None:
    """Otherwise it would fit as long as that file is missing, whatever is in the others."""
    place, partition = tmp_path / "t-0", tmp_path / "logs" / "t-0"
    make_private(str(place))
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").write_bytes(b"x")
    known = SegmentSummary(**{k: v for k, v in SUMMARY.items() if k != "stamps"})  # type: ignore[arg-type]
    record(str(place), str(partition), [known])
    assert read_list(str(place)) == Summaries()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_nothing_is_kept_where_another_user_could_put_a_link(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir(0o755)
    assert opened(str(ledger / "key-summaries"), {}) is not None
    os.chown(ledger, 54_321, 54_321)
    assert opened(str(ledger / "key-summaries"), {}) is None
    assert opened(str(ledger / "others"), {}) is None
    assert not (ledger / "others").exists()
