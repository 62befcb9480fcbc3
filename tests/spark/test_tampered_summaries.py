"""Somebody has exchanged, changed or restored what runs keep of segments. A run that trusts it must
leave the bytes that a run leaves that reads everything: no record is lost, none comes back.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.spark.nights import Twins, clean_night, clean_partitions, has_value, write_day
from winnow.cleaning.summaries.truncated import packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def twins(spark: SparkSession, tmp_path: Path) -> Twins:
    return Twins(spark, tmp_path)


def key_files(twins: Twins) -> list[Path]:
    """The files of keys, in the order of their segments."""
    paths = twins.summaries.glob("*/*/t-0/*.keys")
    return sorted(paths, key=lambda path: int(path.name.split("-")[0]))


def set_times(path: Path, before: os.stat_result) -> None:
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchange_contents(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    for path, data in ((one, second), (other, first)):
        before = path.stat()
        path.write_bytes(data)
        set_times(path, before)


def exchange_names(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def flip_and_sum_up(one: Path, _: Path) -> None:
    """Change keys, with a checksum and a time that fit."""
    before, data = one.stat(), bytearray(one.read_bytes())
    data[-30:] = bytes(30)
    data[:4] = zlib.crc32(data[4:]).to_bytes(4, "big")
    one.write_bytes(data)
    set_times(one, before)


@pytest.mark.parametrize("tamper", [exchange_contents, exchange_names, flip_and_sum_up])
def test_a_deleted_key_does_not_come_back_when_keys_are_tampered_with(
    twins: Twins, tamper: Callable[[Path, Path], None]
) -> None:
    """The key sets of two segments have the same size, so only their content tells them apart. A
    segment that is not read keeps its old record, which the tombstone must not outlive.
    """
    twins.night(0, range(400))
    second, third = key_files(twins)[1:3]
    assert second.stat().st_size == third.stat().st_size
    base = [int(path.name.split("-")[0]) for path in (second, third)]
    deleted = (base[0] + 3, base[1] - 2)
    assert all(has_value(twins.log_dir, key) for key in deleted)
    tamper(second, third)
    twins.night(1, [395], deleted=deleted)
    twins.night(5, [395])
    assert not any(has_value(twins.log_dir, key) for key in deleted)


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a list, with a checksum that fits."""
    told = json.loads(path.read_text().splitlines()[0])
    change(told)
    body = json.dumps(told)
    path.write_text(f"{body}\n{zlib.crc32(body.encode())}\n")


def the_list(twins: Twins, partition: str = "t-0") -> Path:
    [path] = twins.summaries.glob(f"*/*/{partition}/segments.json")
    return path


def swap_files_in_the_list(twins: Twins) -> None:
    def change(told: dict[str, Any]) -> None:
        second, third = told["segments"][1:3]
        second["file"], third["file"] = third["file"], second["file"]

    rewrite(the_list(twins), change)


def swap_stamps_in_the_list(twins: Twins) -> None:
    def change(told: dict[str, Any]) -> None:
        second, third = told["segments"][1:3]
        second["stamps"], third["stamps"] = third["stamps"], second["stamps"]

    rewrite(the_list(twins), change)


@pytest.mark.parametrize("swap", [swap_files_in_the_list, swap_stamps_in_the_list])
def test_a_list_with_the_facts_of_another_segment_is_not_trusted(
    twins: Twins, swap: Callable[[Twins], None]
) -> None:
    twins.night(0, range(400))
    assert has_value(twins.log_dir, 60)
    assert has_value(twins.log_dir, 120)
    swap(twins)
    twins.night(1, [395], deleted=(60, 120))
    twins.night(5, [395])
    assert not has_value(twins.log_dir, 60)
    assert not has_value(twins.log_dir, 120)


def test_who_can_write_as_the_user_can_bring_a_deleted_record_back(twins: Twins) -> None:
    """What docs/safety.md says of the limit: the digest in a file's name has no secret. Only the
    user of the runs can write to the directory.
    """
    twins.night(0, range(400))

    def forge(told: dict[str, Any]) -> None:
        for segment in told["segments"]:
            path = the_list(twins).with_name(segment["file"])
            keys = np.sort(np.random.default_rng(1).integers(2**63, size=segment["keys"]))
            data = packed(keys.astype(np.uint64)).tobytes()
            digest = hashlib.blake2b(data, digest_size=16).hexdigest()
            segment["file"] = f"{segment['base_offset']}-{digest}{'0' * 16}.keys"
            path.with_name(segment["file"]).write_bytes(data)

    rewrite(the_list(twins), forge)
    with pytest.raises(AssertionError):
        twins.night(1, [395], deleted=(60,))
    for log_dir, summaries in ((twins.log_dir, twins.summaries), (twins.other, None)):
        write_day(log_dir, 5, [395])
        clean_night(twins.spark, log_dir, 5, summaries)
    assert has_value(twins.log_dir, 60)
    assert not has_value(twins.other, 60)


def test_older_summaries_that_somebody_restores_count_only_where_nothing_has_changed(
    twins: Twins, tmp_path: Path
) -> None:
    twins.night(0, range(400))
    older = shutil.copytree(twins.summaries, tmp_path / "older")
    assert has_value(twins.log_dir, 5)
    assert twins.night(1, [5, 60, 395], deleted=(120,)) == 4
    shutil.rmtree(twins.summaries)
    shutil.copytree(older, twins.summaries)
    assert twins.night(2, [300], deleted=(5,)) < 6
    shutil.rmtree(twins.summaries)
    shutil.copytree(older, twins.summaries)
    twins.night(6, [301])
    assert not has_value(twins.log_dir, 5)


def test_lists_of_two_partitions_that_were_exchanged_are_ignored(twins: Twins) -> None:
    for partition in (0, 1):
        write_day(twins.log_dir, 0, range(400), partition=partition)
    clean_partitions(twins.spark, twins.log_dir, 0, twins.summaries)
    exchange_names(the_list(twins, "t-0").parent, the_list(twins, "t-1").parent)
    for partition in (0, 1):
        write_day(twins.log_dir, 1, [395], partition=partition)
    results = clean_partitions(twins.spark, twins.log_dir, 1, twins.summaries)
    assert [one.segments_unread for one in results] == [0, 0]


def test_a_link_among_the_summaries_leads_nowhere(twins: Twins, tmp_path: Path) -> None:
    """What is left of partitions that are gone is removed, so nothing else may be there."""
    twins.night(0, range(400))
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "t-9").mkdir()
    (private / "t-9" / "00000000000000000000.log").write_bytes(b"x")
    place = the_list(twins).parents[1]
    place.rename(tmp_path / "moved")
    place.symlink_to(private)
    assert twins.night(1, [395]) == 0
    assert (private / "t-9" / "00000000000000000000.log").read_bytes() == b"x"
