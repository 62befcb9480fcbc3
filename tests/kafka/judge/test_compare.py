"""The comparison with Kafka detects every kind of difference and names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.compare import assert_same_dump, assert_same_log_dir, assert_same_partition
from tests.fixtures.data import copy_log_dir, expected

PARTITION = "c-hotkey-0"


@pytest.fixture
def found(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "found", only=[PARTITION]) / PARTITION


@pytest.fixture
def kafkas(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "kafkas", only=[PARTITION]) / PARTITION


def change_byte(file: Path, position: int) -> None:
    times = file.stat().st_mtime_ns
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(times, times))


def a_log(directory: Path) -> Path:
    return sorted(directory.glob("*.log"))[1]


def test_copies_are_equal(found: Path, kafkas: Path) -> None:
    assert_same_partition(found, kafkas)
    assert_same_log_dir(found.parent, kafkas.parent)


def test_changed_header_field_is_reported(found: Path, kafkas: Path) -> None:
    change_byte(a_log(found), 60)
    with pytest.raises(AssertionError, match="in the batch at 0\n  record count: found"):
        assert_same_log_dir(found.parent, kafkas.parent)


def test_changed_record_is_reported_with_its_position(found: Path, kafkas: Path) -> None:
    change_byte(a_log(found), 100)
    with pytest.raises(
        AssertionError,
        match=r"first difference at byte 100, in the batch at 0\n  records, from byte 92: found",
    ):
        assert_same_partition(found, kafkas)


def test_changed_index_entry_is_reported(found: Path, kafkas: Path) -> None:
    change_byte(a_log(found).with_suffix(".index"), 9)
    with pytest.raises(
        AssertionError, match=r"\.index: .* in entry 1 \(relative offsets\)\n  found \(65"
    ):
        assert_same_partition(found, kafkas)
    assert_same_partition(found, kafkas, but=[".index"])


def test_changed_modification_time_is_reported(found: Path, kafkas: Path) -> None:
    log = a_log(found)
    time = log.stat().st_mtime_ns + 1_000_000
    os.utime(log, ns=(time, time))
    with pytest.raises(AssertionError, match=r"\(\+1 ms\)"):
        assert_same_partition(found, kafkas)


def test_missing_and_foreign_files_are_seen(found: Path, kafkas: Path) -> None:
    a_log(found).rename(found / "x.deleted")
    with pytest.raises(
        AssertionError, match=r"only here \['x.deleted'\], only Kafka has \['0+\d+\.log'\]"
    ):
        assert_same_partition(found, kafkas, but=[".log"])


def test_dumps_of_different_logs_differ() -> None:
    with pytest.raises(AssertionError, match="line 1 of the dump differs"):
        assert_same_dump(expected("merge")["c-none-0"], expected("untouched")["c-none-0"])


def test_logical_comparison_ignores_layout_but_not_records() -> None:
    lines = expected("merge")["c-lz4-0"]
    relaid = [line.replace('"size":', '"size":1') for line in lines]
    assert_same_dump(relaid, lines, logical=True)
    with pytest.raises(AssertionError, match="size"):
        assert_same_dump(relaid, lines)
    record = next(i for i, line in enumerate(lines) if line.startswith('{"t":"rec"'))
    with pytest.raises(AssertionError, match="differs from Kafka's"):
        assert_same_dump(lines[:record] + lines[record + 1 :], lines, logical=True)
