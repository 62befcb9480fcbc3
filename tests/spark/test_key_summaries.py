"""Segments that an earlier run knows and that have no key of a new record are not read
(docs/decisions/0054). Each run is compared with one that reads everything, on a copy.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.disks import MIB, disk_or_skip
from tests.spark.nights import (
    CONFIGS,
    Twins,
    bytes_of,
    clean_night,
    forget_unique,
    has_value,
    write_day,
    write_many,
)
from tests.spark.runs import changes, files_of
from winnow.cleaning.learn import learn_segments
from winnow.cleaning.summaries import search
from winnow.cleaning.summaries.store import opened, read_keys, read_list
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def twins(spark: SparkSession, tmp_path: Path) -> Twins:
    return Twins(spark, tmp_path)


def ask_first(monkeypatch: pytest.MonkeyPatch, count: int | None) -> None:
    """Let summaries be asked for so many of the keys before they are asked for all."""
    if count is not None:
        monkeypatch.setattr(search, "_ASKED_FIRST", count)


def test_segments_without_new_keys_are_not_read(twins: Twins) -> None:
    assert twins.night(0, range(400)) == 0
    unread = [twins.night(day, range(390, 400)) for day in range(1, 4)]
    assert unread == [7, 7, 7]


def test_segments_with_a_new_key_are_read(twins: Twins) -> None:
    twins.night(0, range(400))
    twins.night(1, range(390, 400))
    assert twins.night(2, [0, 395]) == 6
    assert twins.night(3, list(range(0, 400, 10))) == 0


def test_new_keys_leave_all_other_segments_unread(twins: Twins) -> None:
    twins.night(0, range(400))
    assert twins.night(1, range(1000, 1010)) == 7


def test_a_tombstone_reaches_every_segment_that_has_its_key(twins: Twins) -> None:
    twins.night(0, range(400))
    twins.night(1, range(390, 400))
    assert twins.night(2, [395], deleted=(3, 120)) == 5
    assert [twins.night(day, [395]) for day in range(3, 6)] == [7, 7, 7]
    names = b"".join(bytes_of(twins.log_dir).values())
    assert names.count(b"key-120") == names.count(b"key-121") - 1 == 0


@pytest.mark.parametrize("first", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_random_nights_leave_what_a_run_that_reads_everything_leaves(
    twins: Twins, monkeypatch: pytest.MonkeyPatch, first: int | None
) -> None:
    ask_first(monkeypatch, first)
    random = Random(26)
    twins.night(0, range(300))
    unread = 0
    for day in range(1, 25):
        hot = [random.randrange(290, 300) for _ in range(random.randrange(12))]
        some = [random.randrange(400) for _ in range(random.randrange(3))]
        deleted = tuple(random.randrange(400) for _ in range(random.randrange(3)))
        if hot or some or deleted:
            unread += twins.night(day, hot + some, deleted=deleted)
    assert unread > 40


@pytest.mark.parametrize(
    ("proven", "first"),
    [
        (True, None),
        (True, 100),
        pytest.param(True, 5000, marks=pytest.mark.slow),
        pytest.param(False, None, marks=pytest.mark.slow),
        (False, 5000),
    ],
)
def test_dirty_keys_are_settled_by_the_segment_that_has_them(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    proven: bool,
    first: int | None,
) -> None:
    """With so many dirty keys, each summary seems to have some of them. `proven`: Winnow has
    cleaned all of the clean part, so a key has one record there.
    """
    ask_first(monkeypatch, first)
    twins = Twins(spark, tmp_path)
    configs = CONFIGS.replace("segment.bytes=4096", "segment.bytes=1048576")
    for log_dir in (twins.log_dir, twins.other):
        write_many(log_dir, np.arange(400_000))
    twins.clean(0, configs=configs)
    if not proven:
        [path] = twins.summaries.glob("*/*/t-0/segments.json")
        forget_unique(path)
    closed = len(list(twins.log_dir.glob("t-0/*.log"))) - 1
    for log_dir in (twins.log_dir, twins.other):
        write_many(log_dir, np.arange(280_000, 400_000), tombstones=40_000)
    unread = twins.clean(1, configs=configs)
    if proven:
        assert 0.7 * closed - 1 <= unread <= 0.7 * closed
    else:
        assert unread < 0.3 * closed, "tombstones are looked for everywhere"


def test_a_key_that_the_clean_part_has_twice_is_deleted_everywhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Somebody has raised the checkpoint over a part that nobody has cleaned."""
    twins = Twins(spark, tmp_path)
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 0, [*range(400), 3, *range(400, 460)])
        (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 350\n")
    twins.clean(0)
    assert has_value(twins.log_dir, 3)
    twins.night(1, [455], deleted=(3,))
    twins.clean(5)
    assert not has_value(twins.log_dir, 3)


def _same_size(path: Path) -> None:
    """Replace a file by another one of the same size and time."""
    before = path.stat()
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _written_in_place(path: Path) -> None:
    before = path.stat()
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(first)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
@pytest.mark.parametrize("touch", [_same_size, _written_in_place])
def test_a_segment_that_somebody_touched_is_read(
    twins: Twins, touch: Callable[[Path], None], suffix: str
) -> None:
    twins.night(0, range(400))
    touch(sorted(twins.log_dir.glob(f"t-0/*.{suffix}"))[2])
    assert twins.night(1, range(390, 400)) == 6


def test_a_segment_that_another_cleaner_changed_is_cleaned(twins: Twins) -> None:
    """The other one removes key 5 from the second segment: had Winnow trusted what it knew, the
    results would differ.
    """
    twins.night(0, range(400))
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 1, [5, 60])
        clean_night(twins.spark, log_dir, 1, None)
    assert twins.night(2, [6]) == 5


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _open_to_all(path: Path) -> None:
    path.parent.chmod(0o755)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage", [_truncate, _flip, _link, _open_to_all, _empty, _fifo, Path.unlink]
)
def test_a_damaged_list_is_ignored(twins: Twins, damage: Callable[[Path], None]) -> None:
    twins.night(0, range(400))
    [path] = twins.summaries.glob("*/*/t-0/segments.json")
    damage(path)
    assert twins.night(1, range(390, 400)) == 0
    path.parent.chmod(0o700)
    if damage is not _open_to_all:
        assert twins.night(2, range(390, 400)) == 7


@pytest.mark.parametrize("damage", [_truncate, _flip, _link, _empty, _fifo, Path.unlink])
def test_a_segment_with_damaged_keys_is_read(twins: Twins, damage: Callable[[Path], None]) -> None:
    twins.night(0, range(400))
    paths = sorted(twins.summaries.glob("*/*/t-0/*.keys"), key=lambda p: int(p.name.split("-")[0]))
    damage(paths[1])
    summary, _ = list(read_list(str(paths[1].parent)).segments.values())[1]
    assert read_keys(str(paths[1].parent), summary) is None
    assert twins.night(1, [1000]) == 6
    assert twins.night(2, [1000]) == 7


@pytest.mark.parametrize("damage", [_truncate, _empty, _link, _fifo])
def test_without_its_secret_nothing_is_known(
    twins: Twins, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    twins.night(0, range(400))
    caplog.set_level(logging.INFO, "winnow")
    damage(twins.summaries / "secret")
    assert twins.night(1, range(390, 400)) == 0
    assert "can't be used" in caplog.text


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for _ in range(2 * MIB // 4096):
            file.write(bytes(4096))


def test_a_full_disk_leaves_no_part_of_a_secret(tmp_path: Path) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        place = str(disk / "key-summaries")
        filler = disk / "filler"
        with pytest.raises(OSError, match="No space"):
            _fill(filler)
        assert opened(place, {}) is None
        filler.unlink()
        assert opened(place, {}) is not None


def test_a_lost_secret_makes_a_run_read_everything(twins: Twins) -> None:
    twins.night(0, range(400))
    (twins.summaries / "secret").unlink()
    assert twins.night(1, [5]) == 0
    assert twins.night(2, [5]) == 7


def test_another_index_interval_makes_a_run_read_everything(twins: Twins) -> None:
    twins.night(0, range(400))
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 1, range(390, 400))
    other = CONFIGS.replace("index.interval.bytes=512", "index.interval.bytes=1024")
    assert twins.clean(1, configs=other) == 0


def test_after_an_unclean_shutdown_everything_is_read(twins: Twins) -> None:
    twins.night(0, range(400))
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 1, range(390, 400))
        (log_dir / ".kafka_cleanshutdown").unlink()
    assert twins.clean(1) == 0


def test_what_is_known_is_rebuilt(twins: Twins) -> None:
    twins.night(0, range(400))
    shutil.rmtree(twins.summaries)
    before = files_of(twins.log_dir)
    settings = Settings(topic_configs=parse_topic_configs(CONFIGS))

    def learn() -> int:
        return learn_segments(
            twins.spark.sparkContext,
            [str(twins.log_dir)],
            key_summaries=str(twins.summaries),
            settings=settings,
            least_summed_up=1,
        )

    assert (learn(), learn()) == (8, 0)
    assert changes(before, files_of(twins.log_dir)) == []
    assert twins.night(1, [5, 395]) == 6
    assert learn() == 0


def test_a_crash_before_the_list_is_written_costs_only_a_read(twins: Twins) -> None:
    """The list is the last thing that a run writes. The files of keys of the run are there."""
    twins.night(0, range(400))
    [path] = twins.summaries.glob("*/*/t-0/segments.json")
    before = path.read_bytes()
    keys = {one: one.read_bytes() for one in path.parent.glob("*.keys")}
    twins.night(1, [5, 60, 395])
    path.write_bytes(before)
    for one, data in keys.items():
        one.write_bytes(data)
    assert twins.night(2, [300]) == 4
    assert twins.night(3, [301]) == 6


def test_transactions_make_a_run_read_everything(twins: Twins) -> None:
    twins.night(0, range(400))
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 1, range(390, 400), transactional=True)
    assert twins.clean(1) == 0


def test_a_known_segment_below_the_log_start_is_read(twins: Twins) -> None:
    twins.night(0, range(400))
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 1, range(390, 400), log_start=20)
    assert twins.clean(1) == 6


def test_where_space_is_short_known_segments_stay_unread(twins: Twins) -> None:
    twins.night(0, range(400))
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 1, [5, 60, 395])
    assert twins.clean(1, max_extra_space=8_000) == 5


def test_replaced_files_can_be_kept(twins: Twins) -> None:
    twins.night(0, range(400))
    for log_dir in (twins.log_dir, twins.other):
        write_day(log_dir, 1, [5, 395])
    known = clean_night(twins.spark, twins.log_dir, 1, twins.summaries, keep_replaced=True)
    assert known.segments_unread == 6


def test_only_the_user_can_read_what_is_known(twins: Twins) -> None:
    twins.night(0, range(400))
    modes = {path.stat().st_mode & 0o077 for path in twins.summaries.rglob("*")}
    assert modes == {0}


def test_a_key_takes_two_bytes(twins: Twins) -> None:
    twins.night(0, range(400))
    size = sum(path.stat().st_size for path in twins.summaries.glob("*/*/t-0/*.keys"))
    assert size <= 2 * 400 + 8 * 32


def test_what_is_known_of_a_removed_partition_is_removed(twins: Twins) -> None:
    twins.night(0, range(400))
    [place] = twins.summaries.glob("*/*/t-0")
    for log_dir in (twins.log_dir, twins.other):
        (log_dir / "t-0").rename(log_dir / "t-1")
    twins.clean(1)
    assert not place.exists()
