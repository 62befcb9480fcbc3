"""Which options may destroy what a topic's own settings keep (decision 47)."""

from __future__ import annotations

import pytest

from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.more_deleted import deletes_more
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings, parse_set, parse_topic_set
from winnow.policy.versions import ANY_VERSION, KafkaVersion, KnownVersion

OWN = {
    "compacted": "cleanup.policy=compact min.compaction.lag.ms=1000",
    "expiring": "cleanup.policy=delete retention.ms=5000",
    "both": "cleanup.policy=compact,delete retention.bytes=-1",
    "tiered": "cleanup.policy=delete remote.storage.enable=true",
}


def found(
    topic: str,
    *options: str,
    server: str = "",
    kafka: KnownVersion = ANY_VERSION,
    replace_cleaner: bool = False,
) -> tuple[str, ...]:
    """`options`: `KEY=VALUE` of this topic, or `--set KEY=VALUE`."""
    lines = (f"{name} {pair}\n" for name, pairs in OWN.items() for pair in pairs.split())
    settings = Settings(
        topic_configs=parse_topic_configs("".join(lines)),
        server_properties=parse_server_properties(server),
        sets=[parse_set(one.removeprefix("--set ")) for one in options if one.startswith("--set")],
        topic_sets=[
            parse_topic_set(f"{topic}:{one}") for one in options if not one.startswith("--set")
        ],
        kafka=kafka,
        replace_cleaner=replace_cleaner,
    )
    config = settings.resolve(topic)
    assert isinstance(config, TopicConfig)
    return deletes_more(settings, topic, config, node_id=None)


@pytest.mark.parametrize(
    ("topic", "option", "words"),
    [
        ("expiring", "retention.ms=4999", "retention.ms=4999 instead of 5000"),
        ("expiring", "retention.bytes=1", "retention.bytes=1 instead of -1"),
        ("expiring", "cleanup.policy=compact", "cleanup.policy=compact instead of delete"),
        ("compacted", "cleanup.policy=compact,delete", "cleanup.policy=compact,delete instead of"),
        ("compacted", "delete.retention.ms=5", "delete.retention.ms=5 instead of 86400000"),
        ("compacted", "min.compaction.lag.ms=0", "min.compaction.lag.ms=0 instead of 1000"),
        ("both", "retention.bytes=7", "retention.bytes=7 instead of -1"),
        ("both", "--set log.retention.ms=5", "retention.ms=5 instead of 604800000"),
        ("tiered", "remote.storage.enable=false", "no remote storage"),
    ],
)
def test_option_that_deletes_more_is_found(topic: str, option: str, words: str) -> None:
    (one,) = found(topic, option)
    assert words in one


def test_negative_delete_retention_is_reported_as_deleting_more() -> None:
    old = KafkaVersion.parse("3.2")
    option = "--set log.cleaner.delete.retention.ms=-1"
    (one,) = found("compacted", option, kafka=KnownVersion(old, old, "given"))
    assert "delete.retention.ms=-1 instead of 86400000" in one


@pytest.mark.parametrize(
    ("topic", "option"),
    [
        ("expiring", "retention.ms=5001"),
        ("expiring", "retention.ms=-1"),
        ("expiring", "min.compaction.lag.ms=0"),
        ("expiring", "--set log.retention.ms=5"),
        ("compacted", "retention.ms=5"),
        ("compacted", "cleanup.policy="),
        ("compacted", "min.cleanable.dirty.ratio=0"),
        ("compacted", "max.compaction.lag.ms=1000"),
        ("compacted", "segment.bytes=1048576"),
        ("both", "cleanup.policy=delete"),
    ],
)
def test_option_that_deletes_no_more_is_not_found(topic: str, option: str) -> None:
    assert found(topic, option) == ()


def test_cleaner_that_was_switched_off_is_found() -> None:
    option, off = "--set log.cleaner.enable=true", "log.cleaner.enable=false"
    (one,) = found("compacted", option, server=off)
    assert one == "log.cleaner.enable=true instead of false"


def test_option_that_says_only_this_deletes_no_more_than_it_says() -> None:
    off = "log.cleaner.enable=false"
    assert found("compacted", server=off, replace_cleaner=True) == ()
    option = "delete.retention.ms=5"
    (one,) = found("compacted", option, server=off, replace_cleaner=True)
    assert one == "delete.retention.ms=5 instead of 86400000"


def test_topic_of_unknown_policy_has_nothing_to_compare_with() -> None:
    settings = Settings(topic_sets=[parse_topic_set("t:cleanup.policy=compact")])
    config = settings.resolve("t")
    assert isinstance(config, TopicConfig)
    assert deletes_more(settings, "t", config, node_id=None) == ()
