"""A recovery takes time for each segment once, however many there are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from winnow.errors import CorruptLogError
from winnow.logdir.names import LOG, DirectoryKind, segment_file
from winnow.policy.sources import Settings, Unknown, parse_topic_set
from winnow.start.files import Ascending
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.start.loader import load_log
from winnow.state import TopicPartition
from winnow.storage.places import Places

SETTINGS = [parse_topic_set(f"t:{one}") for one in ("cleanup.policy=delete", "retention.ms=-1")]


def _loaded(directory: Path) -> LoadedLog:
    config = Settings(topic_sets=SETTINGS).resolve("t")
    if isinstance(config, Unknown):
        raise CorruptLogError(config.reason)
    log = LogToLoad(
        log_dir=str(directory.parent),
        name=directory.name,
        kind=DirectoryKind.CURRENT,
        topic_partition=TopicPartition("t", 0),
        log_start_checkpoint=0,
        recovery_point=0,
        config=config,
        now=0,
        bytes=0,
        error=None,
        users=(),
    )
    return load_log(Places(), log, config)


def test_recovery_of_many_empty_segments_takes_time_for_each_once(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    times = []
    for count in (500, 5000):
        for number in range(count):
            (directory / segment_file(number * 10, LOG)).touch()
        began = time.process_time()
        loaded = _loaded(directory)
        times.append(time.process_time() - began)
        assert loaded.log_end_offset == (count - 1) * 10
        # Two indexes of each, and a snapshot at each but the first.
        assert len(loaded.truncation.files) == 3 * count
    assert times[1] < 40 * times[0]  # a square would be a hundred times


@pytest.mark.parametrize(("after", "upto"), [(0, 5), (3, 3), (5, 2), (-1, 9), (9, 9)])
def test_ascending_offsets_are_those_of_a_set(after: int, upto: int) -> None:
    offsets, plain = Ascending([5, 1, 3, 9]), {5, 1, 3, 9}
    for one in (4, 3, 10):
        offsets.add(one)
        plain.add(one)
    for one in (1, 2, 10):
        offsets.discard(one)
        plain.discard(one)
    assert (list(offsets), offsets.last) == (sorted(plain), 9)
    assert all((one in offsets) == (one in plain) for one in range(12))
    assert offsets.outside(after, upto) == sorted(o for o in plain if o > upto or o <= after)
