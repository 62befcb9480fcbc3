"""The formats that --topic-configs FILE accepts."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest

from winnow.errors import UsageError
from winnow.policy.config import TopicConfig
from winnow.policy.describe import DescribedConfigs, parse_topic_configs
from winnow.policy.keys import NOT_DYNAMIC, Ignored
from winnow.policy.sources import Settings, Unknown
from winnow.policy.versions import asked_version
from winnow.state import ALL_BROKERS

DYNAMIC = """\
Dynamic configs for topic orders are:
  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}
  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=2, STATIC_BROKER_CONFIG:min.insync.replicas=1}
Dynamic configs for topic bare are:
Dynamic configs for broker 1 are:
  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}
  log.retention.ms=5000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=5000}
  my.plugin.secret=null sensitive=true synonyms={DYNAMIC_BROKER_CONFIG:my.plugin.secret=null}
  my.plugin.size=3 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:my.plugin.size=3}
Default configs for brokers in the cluster are:
  log.segment.bytes=2097152 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=2097152}
"""  # noqa: E501 - as Kafka prints it

ALL = """\
All configs for topic orders are:
  cleanup.policy=compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact, STATIC_BROKER_CONFIG:log.cleanup.policy=delete, DEFAULT_CONFIG:log.cleanup.policy=delete}
  retention.ms=3600000 sensitive=false synonyms={STATIC_BROKER_CONFIG:log.retention.hours=1}
  segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}
  local.retention.ms=-2 sensitive=false synonyms={}
  internal.segment.bytes=null sensitive=false synonyms={}
  brand.new.key=7 sensitive=false synonyms={}
"""  # noqa: E501 - as Kafka prints it


def values(found: DescribedConfigs, topic: str) -> dict[str, object]:
    return {key: entry.value for key, entry in found.entries["topic", topic].items()}


def test_plain_lines_are_parsed() -> None:
    found = parse_topic_configs(
        "\n# a comment\na cleanup.policy=compact,delete\nb retention.ms=-1\na segment.ms=5\nc\n"
    )
    assert values(found, "a") == {
        "cleanup.policy": "compact,delete",
        "segment.ms": Ignored("segment.ms"),
    }
    assert values(found, "b") == {"retention.ms": -1}
    assert found.entries["topic", "c"] == {}
    assert found.of("topic", "a")["cleanup.policy"].where == "--topic-configs line 3"


def test_describe_without_all_is_parsed() -> None:
    found = parse_topic_configs(DYNAMIC)
    assert values(found, "orders") == {
        "cleanup.policy": "compact,delete",
        "min.insync.replicas": Ignored("min.insync.replicas"),
    }
    assert found.entries["topic", "bare"] == {}
    assert {e.key: e.value for e in found.of("broker", 1).values()} == {
        "log.cleaner.threads": Ignored("log.cleaner.threads"),
        "log.retention.ms": 5000,
    }
    assert [(e.key, e.value, e.where) for e in found.of(*ALL_BROKERS).values()] == [
        ("log.segment.bytes", 2097152, "--topic-configs line 11")
    ]


def test_describe_with_all_separates_overrides_from_broker_values() -> None:
    found = parse_topic_configs(ALL)
    assert values(found, "orders") == {"cleanup.policy": "compact"}
    assert {e.key: (e.value, e.where) for e in found.of("effective", "orders").values()} == {
        "retention.ms": (3_600_000, "--topic-configs line 3, STATIC_BROKER_CONFIG"),
        "segment.bytes": (1 << 30, "--topic-configs line 4, DEFAULT_CONFIG"),
        "local.retention.ms": (-2, "--topic-configs line 5, unknown source"),
    }
    assert found.notes == ("--topic-configs: brand.new.key is unknown to Winnow and ignored",)


@pytest.mark.parametrize("colon", ["", ":"])
def test_one_line_form_of_old_brokers_is_parsed(colon: str) -> None:
    text = (
        f"Configs for topic 'orders' are{colon} "
        "cleanup.policy=compact,delete,segment.bytes=1048576\n"
        "Configs for topic 'bare' are \n"
        f"Configs for brokers '1' are{colon} "
        "leader.replication.throttled.rate=700000000,log.cleanup.policy=compact,delete\n"
        f"Configs for default brokers are{colon} log.retention.ms=-1\n"
        "Configs for brokers '2' are \n"
    )
    found = parse_topic_configs(text)
    assert {
        name: [(e.key, e.value) for e in entries.values()]
        for (kind, name), entries in found.entries.items()
        if kind == "broker"
    } == {
        "1": [
            ("leader.replication.throttled.rate", Ignored("leader.replication.throttled.rate")),
            ("log.cleanup.policy", "compact,delete"),
        ],
        "2": [],
    }
    assert [(e.key, e.value) for e in found.of(*ALL_BROKERS).values()] == [("log.retention.ms", -1)]
    assert values(found, "orders") == {"cleanup.policy": "compact,delete", "segment.bytes": 1 << 20}
    assert found.entries["topic", "bare"] == {}


def test_entries_without_synonyms_below_a_headline_are_overrides() -> None:
    found = parse_topic_configs(
        "Configs for topic 'orders' are:\n  cleanup.policy=compact\n  retention.ms=1\n"
    )
    assert values(found, "orders") == {"cleanup.policy": "compact", "retention.ms": 1}


def test_setting_that_is_not_dynamic_is_ignored_among_dynamic_ones() -> None:
    """A controller that is asked prints it; a broker does not use it."""
    entry = "  log.retention.hours=1 sensitive=false synonyms={}\n"
    found = parse_topic_configs(f"Default configs for brokers in the cluster are:\n{entry}")
    assert found.of(*ALL_BROKERS) == {}
    assert found.notes == (f"--topic-configs: log.retention.hours {NOT_DYNAMIC}",)
    of_all = parse_topic_configs(f"All configs for broker 1 are:\n{entry}")
    assert [(e.key, e.value) for e in of_all.of("broker", 1).values()] == [
        ("log.retention.hours", 3_600_000)
    ]


def test_sections_of_other_entities_are_skipped() -> None:
    text = (
        "Dynamic configs for group g are:\n  consumer.x=1 sensitive=false synonyms={}\nx "
        "cleanup.policy=delete\n"
    )
    assert set(parse_topic_configs(text).entries) == {("topic", "x")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b c", "line 1"),
        ("a\nnot/a/topic x=1", "line 2"),
        ("cleanup.policy=compact", "TOPIC KEY=VALUE"),
        ("  x=1 sensitive=false synonyms={}", "heading that names"),
    ],
)
def test_malformed_line_is_refused_with_its_number(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_topic_configs(text)


@pytest.mark.parametrize(
    "text",
    [
        "a cleanup.policy=compact\na segment.bytes=1024\nb cleanup.policy=compact\n",
        (
            "Dynamic configs for topic a are:\n  segment.bytes=1024 sensitive=false synonyms={}\n"
            "Dynamic configs for topic b are:\n  cleanup.policy=compact sensitive=false "
            "synonyms={}\n"
        ),
        "a segment.bytes=10\na segment.bytes=2048\nb cleanup.policy=compact\n",
        "a segment.bytes=1048576\na segment.bytes=10\nb cleanup.policy=compact\n",
    ],
)
def test_out_of_range_value_affects_only_its_topic(text: str) -> None:
    settings = Settings(topic_configs=parse_topic_configs(text), kafka=asked_version("4.3"))
    config = settings.resolve("a")
    assert isinstance(config, Unknown)
    assert "segment.bytes is out of range" in config.reason
    assert "--topic-configs line" in config.reason
    assert isinstance(settings.resolve("b"), TopicConfig)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a cleanup.polcy=compact", "unknown config 'cleanup.polcy'.*cleanup.policy"),
        ("a log.retention.ms=1", "is a broker config.*line 2.*retention.ms"),
        (
            "a retention.ms=1\na retention.ms=2",
            "two values.*1 as in --topic-configs line 2.*found 2.*line 3",
        ),
    ],
)
def test_line_that_is_no_topic_config_affects_only_its_topic(line: str, words: str) -> None:
    text = f"a cleanup.policy=compact\n{line}\nb cleanup.policy=compact"
    settings = Settings(topic_configs=parse_topic_configs(text))
    config = settings.resolve("a")
    assert isinstance(config, Unknown)
    assert re.search(words, config.reason)
    assert isinstance(settings.resolve("b"), TopicConfig)


def test_contradicting_values_affect_only_their_topic() -> None:
    text = (
        "a cleanup.policy=compact\na min.compaction.lag.ms=9\na max.compaction.lag.ms=8\nb "
        "cleanup.policy=compact"
    )
    settings = Settings(topic_configs=parse_topic_configs(text))
    config = settings.resolve("a")
    assert isinstance(config, Unknown)
    assert "larger than max.compaction.lag.ms" in config.reason
    assert isinstance(settings.resolve("b"), TopicConfig)


def test_repeated_equal_value_is_accepted() -> None:
    assert values(parse_topic_configs("a retention.ms=1\na retention.ms=1"), "a") == {
        "retention.ms": 1
    }


@pytest.mark.parametrize("piece", [" ", "a ", " are", " are:", ", ", "} "])
def test_long_line_takes_no_long_time(piece: str) -> None:
    began = time.monotonic()
    for begin in (
        "Dynamic configs for",
        "Configs for topic t are a=b",
        "Dynamic configs for topic",
    ):
        with suppress(UsageError):
            parse_topic_configs(f"{begin}{piece * 10_000}x")
    assert time.monotonic() - began < 2
