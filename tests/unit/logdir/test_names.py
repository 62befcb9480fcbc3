"""Case 82: names as in S1.2."""

from __future__ import annotations

import pytest

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.names import DirectoryKind, base_offset_of, parse_partition_dir, segment_file
from winnow.state import TopicPartition

HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("a-b.c-3", "a-b.c", 3),
        ("x-delete-0", "x-delete", 0),
        ("t-0", "t", 0),
        ("a.b_c-2147483647", "a.b_c", 2**31 - 1),
    ],
)
def test_partition_directory_is_parsed(name: str, topic: str, partition: int) -> None:
    directory = parse_partition_dir(name)
    assert directory.kind is DirectoryKind.CURRENT
    assert directory.topic_partition == TopicPartition(topic, partition)
    assert directory.is_canonical


@pytest.mark.parametrize("kind", ["delete", "future", "stray"])
def test_marked_partition_directory_is_parsed(kind: str) -> None:
    directory = parse_partition_dir(f"t-0.{HEX}-{kind}")
    assert directory.kind == kind
    # Only a future replica's name certainly holds the whole topic.
    assert directory.topic_partition == (TopicPartition("t", 0) if kind == "future" else None)


@pytest.mark.parametrize(
    "name",
    [
        "-0",
        "t-",
        "t-x",
        "noDash",
        ".winnow",
        "lost+found",
        "x-0-delete",
        "t-0-future",
        "t-2147483648",
        "t-1.5",
        "t-\u0661",
    ],
)
def test_name_that_stops_a_broker_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a partition's"):
        parse_partition_dir(name)


def test_number_with_leading_zeros_is_not_canonical() -> None:
    directory = parse_partition_dir("t-007")
    assert directory.topic_partition == TopicPartition("t", 7)
    assert not directory.is_canonical


@pytest.mark.parametrize(
    "topic",
    [
        "a b",
        "x 0 5\ny",
        "\x1b[31mred",
        "\udcff",
        "..",
        ".",
        "../../x",
        "/x",
        "a\tb",
        "\u00e9",
        "t" * 250,
        "a\n",
    ],
)
def test_illegal_topic_is_flagged(topic: str) -> None:
    """With such a name a checkpoint line no longer has three words. As a path it may lead
    elsewhere.
    """
    directory = parse_partition_dir(f"{topic}-0")
    assert directory.topic_partition == TopicPartition(topic, 0)
    assert not directory.has_legal_topic


@pytest.mark.parametrize("topic", ["a", "a-b.c", "__consumer_offsets", "...", "-", "t" * 249])
def test_legal_topic_is_accepted(topic: str) -> None:
    assert parse_partition_dir(f"{topic}-0").has_legal_topic


def test_file_name_holds_its_base_offset() -> None:
    assert segment_file(42, ".log.swap") == "00000000000000000042.log.swap"
    assert base_offset_of("00000000000000000042.log.swap") == 42


@pytest.mark.parametrize(
    "name", ["part-0.log.cleaned", "42.log", ".log", "99999999999999999999.log", "0" * 19 + "x.log"]
)
def test_file_name_without_an_offset_is_refused(name: str) -> None:
    with pytest.raises(CorruptLogError, match="20 digits"):
        base_offset_of(name)
