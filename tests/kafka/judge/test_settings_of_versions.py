"""The table of settings by version, against Kafka's own `LogConfig`, `KafkaConfig` and
`MetadataVersion` of that version.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.kafka.judge.jars import JAR_LISTS, printed_lines
from winnow.policy.config import BY_BROKER_NAME, BY_TOPIC_NAME, KEYS
from winnow.policy.ignored_settings import TOPIC_KEYS
from winnow.policy.keys import (
    STATIC,
    Wrong,
    parse_broker_value,
    parse_topic_value,
    unless_wrong,
)
from winnow.policy.known_version import HIGHEST_LEVELS, LEVELS, supported_features
from winnow.policy.versions import ANY, PRODUCER_ID, KafkaVersion, asked_version

IN_CI = ("2.8.2", "3.9.2", "4.4.0")
VERSIONS = [
    pytest.param(path.stem, marks=() if path.stem in IN_CI else pytest.mark.slow)
    for path in sorted(JAR_LISTS.glob("*.txt"))
]
NOT_IN_4_3_1 = "max.decompressed.message.bytes"
"""4.2.2 and 4.4.0 have it. A log that was cleaned by one of them may be given to 4.3."""
VALUES = (-3, -2, -1, 0, 1, 2, 3, 4, 13, 14, 1_048_575, 1_048_576, 2_147_483_639)


@cache
def answers(version: str, questions: tuple[str, ...] = ()) -> list[str]:
    return printed_lines("Settings", questions, version=version)


def accepted(level: str, name: str, value: int, version: str) -> str:
    """Return what Winnow's tables say."""
    allowed = asked_version(version).rules.settings.get(name, ANY)
    if allowed is None:
        return "unknown"
    row = BY_TOPIC_NAME[name] if level == "topic" else BY_BROKER_NAME[name][1]
    return "yes" if row.allowed.has(value) and allowed.has(value) else "no"


def numbers(level: str) -> list[str]:
    names = BY_TOPIC_NAME if level == "topic" else BY_BROKER_NAME
    return [
        name
        for name in names
        if (BY_TOPIC_NAME[name] if level == "topic" else BY_BROKER_NAME[name][1]).kind.name
        in {"INT", "LONG"}
    ]


@pytest.mark.parametrize("level", ["topic", "broker"])
@pytest.mark.parametrize("version", VERSIONS)
def test_ranges_and_names_are_those_of_the_version(version: str, level: str) -> None:
    names = [
        name
        for name in numbers(level)
        # ConfigDef does not check these: LogConfig does, or a broker takes any negative value.
        if not name.startswith("log.retention.") and name != "internal.segment.bytes"
    ]
    asked = [(name, value) for name in names for value in VALUES]
    found = answers(version, tuple(f"{level} {name}={value}" for name, value in asked))
    assert len(found) >= len(asked)
    wrong = {
        f"{name}={value}": (said, wanted)
        for (name, value), said in zip(asked, found, strict=False)
        if said != (wanted := accepted(level, name, value, version))
        and not (name == PRODUCER_ID and said == "unknown")
        and not (name == NOT_IN_4_3_1 and version == "4.3.1")
    }
    assert wrong == {}


TEXTS = (
    *(str(number) for number in (-131073, -131072, -2, -1, 0, 1, 9, 10, 17, 18, 22, 23, 2**31)),
    *("true", "TRUE", "maybe", "zstd", "none", "producer", "CreateTime", "None", "2.8-IV1"),
    *("0:1", "0:1,1:2", "0:1,", "*", "0:", "x", "9.9"),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_values_of_ignored_topic_configs_are_those_of_the_version(version: str) -> None:
    asked = [(name, text) for name in TOPIC_KEYS for text in TEXTS]
    asked.remove(("flush.messages", "0"))  # since 3.4 it is refused
    found = answers(version, tuple(f"topic {name}={text}" for name, text in asked))
    assert len(found) >= len(asked)
    wrong = {
        f"{name}={text}": said
        for (name, text), said in zip(asked, found, strict=False)
        if said != "unknown"
        and (said == "no")
        != isinstance(unless_wrong(parse_topic_value, name, text, where="here"), Wrong)
    }
    assert wrong == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_features_are_those_of_the_version(version: str) -> None:
    words = [line.split()[1:] for line in answers(version) if line.startswith("feature ")]
    found = {name: range(int(low), int(high) + 1) for name, low, high in words}
    assert found == (supported_features(KafkaVersion.parse(version)) or {})


@pytest.mark.parametrize("version", VERSIONS)
def test_defaults_are_those_of_the_version(version: str) -> None:
    keys = [key for key in KEYS if key.kind.name in {"INT", "LONG", "DOUBLE"} and key.default]
    asked = [(key, "broker" if key.broker_only else "topic") for key in keys]
    found = answers(version, tuple(f"{level} {key.name}=" for key, level in asked))
    assert len(found) >= len(asked)
    unknown = asked_version(version).rules.unknown_settings
    told = {
        key.name: said.removeprefix("default ")
        for (key, _), said in zip(asked, found, strict=False)
        if key.name not in unknown
    }
    if version == "4.3.1":
        assert told.pop(NOT_IN_4_3_1) == "unknown"
    assert told == {key.name: str(key.default) for key in keys if key.name in told}
    assert len(told) >= 10


@pytest.mark.parametrize("version", VERSIONS)
def test_levels_of_metadata_version_are_those_of_the_version(version: str) -> None:
    words = [line.split()[1:] for line in answers(version) if line.startswith("level ")]
    minor = version.rpartition(".")[0]
    latest = [int(level) for name, level in words if name == "latest"]
    assert latest == [HIGHEST_LEVELS[minor]] if minor in HIGHEST_LEVELS else latest in ([], [3])
    for level, name in words:
        if level != "latest" and int(level) <= (latest or [0])[0]:
            assert LEVELS[int(level) - 1] == name


@pytest.mark.parametrize("version", VERSIONS)
def test_every_setting_of_the_version_is_known_or_ignored(version: str) -> None:
    names = [line.split()[1:] for line in answers(version) if line.startswith("name ")]
    assert len(names) > 200
    parse = {"topic": parse_topic_value, "broker": parse_broker_value}
    unknown = {
        f"{level} {name}"
        for level, name in names
        if unless_wrong(parse[level], name, "1", where="here") is None
    }
    assert unknown == set()


@pytest.mark.parametrize("version", VERSIONS)
def test_same_settings_are_dynamic_as_in_kafka(version: str) -> None:
    dynamic = {line.split()[1] for line in answers(version) if line.startswith("dynamic ")}
    assert len(dynamic) > 50
    missing = BY_BROKER_NAME.keys() - STATIC - dynamic
    assert missing <= asked_version(version).rules.unknown_settings | {NOT_IN_4_3_1}
    assert STATIC & dynamic == set()
