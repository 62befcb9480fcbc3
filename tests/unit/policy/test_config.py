"""S9.1: keys, types, ranges, units and Kafka's defaults."""

from __future__ import annotations

import pytest

from tests.unit.policy.states import KAFKA_DEFAULTS
from winnow.errors import UsageError
from winnow.policy.config import KEYS, topic_config
from winnow.policy.keys import Ignored, parse_broker_value, parse_topic_value
from winnow.policy.sources import parse_topic_set


def test_every_setting_has_a_source() -> None:
    assert list(KAFKA_DEFAULTS.sources) == [key.name for key in KEYS]


def test_every_default_is_valid_for_its_key() -> None:
    for key in KEYS:
        if key.default is not None and not key.broker_only:
            text = str(key.default).lower()
            assert parse_topic_value(key.name, text, where="table") == key.default


def test_defaults_are_kafkas() -> None:
    assert KAFKA_DEFAULTS.cleanup_policy == "delete"
    assert KAFKA_DEFAULTS.retention_ms == 168 * 3_600_000
    assert KAFKA_DEFAULTS.segment_bytes == 1 << 30
    assert KAFKA_DEFAULTS.max_compaction_lag_ms == 2**63 - 1


@pytest.mark.parametrize(
    ("text", "policy", "compact", "delete"),
    [
        ("compact", "compact", True, False),
        ("delete,compact", "compact,delete", True, True),
        (" Compact , DELETE ", "compact,delete", True, True),
        ("delete", "delete", False, True),
        ("", "", False, False),
    ],
)
def test_cleanup_policy_is_parsed(text: str, policy: str, *, compact: bool, delete: bool) -> None:
    value = parse_topic_value("cleanup.policy", text, where="here")
    assert not isinstance(value, Ignored)
    config = topic_config({"cleanup.policy": (value, "here")})
    assert (config.cleanup_policy, config.cleanup_compact, config.cleanup_delete) == (
        policy,
        compact,
        delete,
    )


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("cleanup.policy", "compcat", "compact and delete"),
        ("min.cleanable.dirty.ratio", "1.01", "between 0 and 1"),
        ("min.cleanable.dirty.ratio", "nan", "between 0 and 1"),
        ("min.cleanable.dirty.ratio", "much", "a number"),
        ("retention.ms", "-2", "at least -1"),
        ("retention.ms", "7d", "a whole number of 64 bits"),
        ("retention.ms", "1_000", "a whole number of 64 bits"),
        ("retention.ms", str(2**63), "a whole number of 64 bits"),
        ("segment.bytes", "13", "at least 14"),
        ("segment.bytes", str(2**31), "a whole number of 32 bits"),
        ("max.compaction.lag.ms", "0", "at least 1"),
        ("remote.storage.enable", "yes", "true or false"),
    ],
)
def test_wrong_value_is_refused_with_key_range_and_place(key: str, text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_topic_value(key, text, where="file line 3")
    for part in (key, text, words, "file line 3"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("retention.m", "retention.ms"),
        ("cleanup.polciy", "cleanup.policy"),
        ("segment.byte", "segment.bytes"),
    ],
)
def test_unknown_key_is_refused_with_similar_keys(key: str, near: str) -> None:
    assert parse_topic_value(key, "1", where="here") is None
    with pytest.raises(UsageError, match=near):
        parse_topic_set(f"*:{key}=1")


def test_broker_key_is_refused_as_a_topic_config() -> None:
    with pytest.raises(UsageError, match=r"The topic's name for it is retention\.ms"):
        parse_topic_value("log.retention.hours", "1", where="here")
    with pytest.raises(UsageError, match="broker config"):
        parse_topic_value("num.io.threads", "1", where="here")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("log.retention.hours", "168", 604_800_000),
        ("log.retention.minutes", "2", 120_000),
        ("log.retention.minutes", "-1", -1),
        ("log.retention.ms", "-5", -1),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("log.cleaner.enable", "FALSE", False),
        ("num.io.threads", "8", Ignored("num.io.threads")),
        (
            "listener.name.x.ssl.keystore.location",
            "/x",
            Ignored("listener.name.x.ssl.keystore.location"),
        ),
        ("log.cleaner.threads", "8", Ignored("log.cleaner.threads")),
        ("log.cleaner.thread", "8", None),
        ("cleanup.policy", "compact", None),
    ],
)
def test_broker_values_are_converted_to_topic_units(key: str, text: str, value: object) -> None:
    assert parse_broker_value(key, text, where="here") == value


def test_retention_of_zero_is_refused_for_a_broker_only() -> None:
    with pytest.raises(UsageError, match="unlimited"):
        parse_broker_value("log.retention.ms", "0", where="here")
    assert parse_topic_value("retention.ms", "0", where="here") == 0


def test_internal_segment_bytes_overrides_segment_bytes() -> None:
    config = topic_config(
        {"segment.bytes": (2 << 20, "a"), "internal.segment.bytes": (4096, "line 7")}
    )
    assert config.segment_bytes == 4096
    assert config.sources["segment.bytes"] == "internal.segment.bytes, line 7"


def test_min_compaction_lag_above_the_max_is_refused() -> None:
    assert topic_config({"min.compaction.lag.ms": (5, "a"), "max.compaction.lag.ms": (5, "b")})
    with pytest.raises(
        UsageError, match=r"min\.compaction\.lag\.ms is larger.*at most 4 \(b\).*found 5 \(a\)"
    ):
        topic_config({"min.compaction.lag.ms": (5, "a"), "max.compaction.lag.ms": (4, "b")})
