"""A query returns what the options ask for, and reads no more bytes than the indexes and headers
make necessary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.data import copy_log_dir, unpacked
from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import make_partition
from tests.unit.kafka_log.reading import counted, offsets, rows, tasks
from winnow.errors import CorruptLogError, UsageError
from winnow.kafka_log.options import parse_options
from winnow.kafka_log.ranges import OPEN_BYTES, ReadRange, plan_tasks
from winnow.storage.places import Places
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

CLEAN = unpacked("before-clean") / "clean"
T = 1_790_000_000_000


def batch(first: int, last: int, **fields: Any) -> bytes:
    records = [
        Record(offset, T + 10 * offset, b"k%d" % offset, bytes(20))
        for offset in range(first, last + 1)
    ]
    return encode_batch(records, **fields)


SEGMENTS: Mapping[int, Sequence[bytes]] = {
    base: [
        batch(first, first + 4, codec=Codec(base // 100 % 5))
        for first in range(base, base + 100, 5)
    ]
    for base in (0, 100, 200, 300)
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make offsets 0-399, ms T + 10 * offset, in four segments, batches of 5."""
    return make_partition(tmp_path_factory.mktemp("log") / "t-0", SEGMENTS)


def at(offset: int) -> int:
    return T + 10 * offset


def read_bytes(directory: Path, **options: Any) -> tuple[list[int], int]:
    """Return the offsets, and how many bytes of logs were read."""
    with counted() as storage:
        found = offsets(directory, **options)
    return found, storage.log_bytes


def test_all_records_are_read_once(directory: Path) -> None:
    found, read = read_bytes(directory)
    assert found == list(range(400))
    assert read == sum(path.stat().st_size for path in directory.glob("*.log"))


@given(first=st.integers(0, 410), last=st.integers(0, 410))
def test_any_span_of_offsets_is_read(directory: Path, first: int, last: int) -> None:
    found, read = read_bytes(directory, startingOffsets=first, endingOffsets=last)
    assert found == [offset for offset in range(400) if first <= offset < last]
    # The index has an entry for every other batch. A header is read to check each boundary.
    assert read <= (max(0, last - first) / 5 + 8) * max(
        len(one) for some in SEGMENTS.values() for one in some
    )


@given(first=st.integers(-3, 410), last=st.integers(-3, 410))
def test_any_span_of_timestamps_is_read(directory: Path, first: int, last: int) -> None:
    expected = [offset for offset in range(400) if first <= offset < last]
    assert offsets(directory, timestampFrom=at(first), timestampBefore=at(last)) == expected
    by_place = offsets(directory, startingTimestamp=at(first), endingTimestamp=at(last))
    # As offsetsForTimes: a start or end that no record reaches is the end of the log.
    assert by_place == (
        [o for o in range(400) if first <= o and (o < last or last >= 400)] if first < 400 else []
    )


def test_older_segments_are_skipped_for_a_timestamp(directory: Path) -> None:
    found, read = read_bytes(directory, timestampFrom=at(350))
    assert found == list(range(350, 400))
    assert read < (directory / f"{300:020d}.log").stat().st_size * 0.75


def test_batches_older_than_the_timestamp_are_skipped(tmp_path: Path) -> None:
    """A bad CRC shows which batches were read."""
    path = make_partition(tmp_path / "t-0", {0: [batch(0, 4, crc=1), batch(5, 9), batch(10, 14)]})
    for index in (*path.glob("*.index"), *path.glob("*.timeindex")):
        index.unlink()
    assert len(rows(path)) == 11
    assert offsets(path, timestampFrom=at(7), mode="FAILFAST") == list(range(7, 15))


def test_unordered_timestamps_are_filtered_record_by_record(tmp_path: Path) -> None:
    """`startingTimestamp` and `endingTimestamp` instead name positions in the log."""
    ages = (50, 10, 40, -1, 20, 60, 30)
    records = [[Record(offset, age, b"k", b"v")] for offset, age in enumerate(ages)]
    path = make_partition(tmp_path / "t-0", {0: [encode_batch(one) for one in records]})
    assert offsets(path, timestampFrom=20, timestampBefore=50) == [2, 4, 6]
    assert offsets(path, timestampBefore=20) == [1, 3]
    assert offsets(path, timestampFrom=30, startingOffsets=1, endingOffsets=6) == [2, 5]
    assert offsets(path, startingTimestamp=20, endingTimestamp=60) == [0, 1, 2, 3, 4]


@given(most=st.integers(1, 12_000))
def test_tasks_of_any_size_read_the_same_records(directory: Path, most: int) -> None:
    assert offsets(directory, maxBytesPerPartition=most) == list(range(400))


def test_tasks_are_split_at_batches(directory: Path) -> None:
    found = [item for task in tasks(directory, maxBytesPerPartition=500) for item in task]
    assert len(found) > 12
    assert all(
        isinstance(item, ReadRange) and item.end_byte - item.start_byte < 1000 for item in found
    )
    assert len(tasks(directory, maxBytesPerPartition=500)) == len(found)
    [one] = tasks(directory, maxBytesPerPartition=4 * OPEN_BYTES + 20_000)
    assert len(one) == 4


@pytest.mark.parametrize("damage", ["zeros", "noise", "another", "gone"])
def test_missing_or_damaged_index_changes_no_result(damage: str, tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", SEGMENTS)
    indexes = sorted(directory.glob("*.index"))
    contents = [path.read_bytes() for path in indexes]
    for path, content, other in zip(indexes, contents, reversed(contents), strict=True):
        spoiled = {
            "zeros": bytes(len(content)),
            "noise": bytes(range(1, len(content) + 1)),
            "another": other,
        }
        path.unlink()
        if damage != "gone":
            path.write_bytes(spoiled[damage])
    assert offsets(directory, maxBytesPerPartition=500) == list(range(400))
    assert offsets(directory, startingOffsets=123, endingOffsets=321) == list(range(123, 321))


def test_log_directory_is_read_by_topic_and_partition() -> None:
    found = {
        (row["topic"], row["partition"]) for row in rows(CLEAN, columns=["topic", "partition"])
    }
    assert {topic for topic, _ in found} >= {"c-4p", "t-v1", "__consumer_offsets"}
    assert "__cluster_metadata" not in {topic for topic, _ in found}
    chosen = rows(CLEAN, columns=["topic", "partition"], topics="c-4p,t-*", partitions="0,3")
    assert {(row["topic"], row["partition"]) for row in chosen} == {
        ("c-4p", 0),
        ("c-4p", 3),
        *((f"t-{name}", 0) for name in ("closed", "long", "open", "v1")),
    }
    assert len(rows(CLEAN, columns=["topic"], topics="c-4p", partitions="3")) == 2140


def test_topics_after_an_exclamation_mark_are_excluded() -> None:
    def topics(globs: str) -> set[str]:
        return {
            row["topic"] for row in rows(CLEAN, columns=["topic"], topics=globs, endingOffsets=2000)
        }

    every = topics("*")
    assert topics("!__*") == {topic for topic in every if not topic.startswith("__")} != every
    assert topics("c-*, !c-4p, !c-n*") == {
        t for t in every if t.startswith("c-") and t != "c-4p" and t[2] != "n"
    }


def test_several_log_directories_are_read_and_a_directory_given_twice_is_refused(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        make_partition(tmp_path / name / f"{name}-0", {0: [batch(0, 4)]})
    assert [row["topic"] for row in rows(tmp_path / "two", tmp_path / "one")] == ["one"] * 5 + [
        "two"
    ] * 5
    with pytest.raises(UsageError, match="partition one-0 was found twice"):
        rows(tmp_path / "one", tmp_path / "one" / "one-0")


def test_partition_in_two_directories_is_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    for name, other in (("one", "a-0"), ("two", "b-0")):
        for partition in ("both-0", other):
            make_partition(tmp_path / name / partition, {0: [batch(0, 4)]})
    paths = tmp_path / "one", tmp_path / "two"
    found = rows(*paths)
    assert [row["topic"] for row in found if row["problem"] is None] == ["a"] * 5 + ["b"] * 5
    [problem] = [row for row in found if row["problem"] is not None]
    assert (problem["topic"], problem["partition"]) == ("both", 0)
    assert all(f"{path}/both-0" in problem["problem"] for path in paths)
    with pytest.raises(CorruptLogError, match="both-0 has several directories"):
        rows(*paths, mode="FAILFAST")
    assert len(rows(*paths, mode="FAILFAST", topics="a,b")) == 10
    assert len(rows(tmp_path / "one" / "both-0", tmp_path / "two" / "b-0", mode="FAILFAST")) == 10


def test_reading_begins_at_the_log_start_offset(tmp_path: Path) -> None:
    assert offsets(CLEAN / "d-start-0")[0] == 1234
    assert offsets(CLEAN, topics="d-start", startingOffsets=1000)[0] == 1234
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["d-start-0"])
    assert offsets(log_dir, belowLogStart="true")[0] == 0
    (log_dir / "log-start-offset-checkpoint").unlink()
    first = min(int(path.stem) for path in (log_dir / "d-start-0").glob("*.log"))
    assert offsets(log_dir)[0] == first < 1234


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_of_what_does_not_exist_are_refused(option: str) -> None:
    for asked, sentence in (
        (
            '{"c-4p":{"0":5},"nothing":{"0":5}}',
            "topic that does not exist: .* c-4p,.*found nothing",
        ),
        ('{"c-4p":{"0":5,"7":5}}', "partition that does not exist: .*c-4p-3, found c-4p-7"),
    ):
        with pytest.raises(UsageError, match=f"{option} names a {sentence}"):
            tasks(CLEAN, **{option: asked})


def test_offsets_of_topics_that_are_left_out_are_no_mistake() -> None:
    assert len(offsets(CLEAN, topics="c-none", startingOffsets='{"c-4p":{"0":5}}')) == 6000


def test_offsets_can_be_given_per_partition() -> None:
    starts, ends = '{"c-4p":{"0":2000,"1":-2}}', '{"c-4p":{"1":3,"2":-1}}'
    found = rows(
        CLEAN,
        topics="c-4p",
        startingOffsets=starts,
        endingOffsets=ends,
        columns=["partition", "offset"],
    )
    by_partition = {n: [row["offset"] for row in found if row["partition"] == n] for n in range(4)}
    assert by_partition[0][0] == 2000
    assert by_partition[1] == [0, 1, 2]
    assert (by_partition[2][0], by_partition[3][0]) == (0, 0)


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
def test_all_paths_that_are_not_there_are_named_in_every_mode(tmp_path: Path, mode: str) -> None:
    """As Spark's own sources do. A result without a path would look complete."""
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    what_to_do = "Nothing was read.*Correct the path, or give only the others"
    with pytest.raises(UsageError, match=rf"no such directory.*\({one}\)\. {what_to_do}"):
        plan_tasks(Places(), parse_options({"paths": json.dumps([str(CLEAN), one]), "mode": mode}))
    paths = json.dumps([one, str(CLEAN), other])
    with pytest.raises(UsageError, match="2 of 3 paths can't be read") as caught:
        plan_tasks(Places(), parse_options({"paths": paths, "mode": mode}))
    assert re.search(
        rf"{one}: no such dir.*; {other}: no such dir.*{what_to_do}", str(caught.value)
    )


def test_path_that_is_not_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        offsets(tmp_path / "none")
    with pytest.raises(
        UsageError, match=r"found No such file or directory \(none\)\. Give an absolute path"
    ):
        offsets(Path("none"))
    with pytest.raises(UsageError, match="not a Kafka log directory, nor a partition's"):
        offsets(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / f"{0:020d}.log").touch()
    with pytest.raises(
        UsageError,
        match="its name is not that of a partition: expected TOPIC-PARTITION, found x",
    ):
        offsets(tmp_path / "x")


def test_log_directory_without_partitions_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert offsets(tmp_path) == []
