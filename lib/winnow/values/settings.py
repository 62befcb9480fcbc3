"""Settings in Python: the names of Kafka's files, and single values as mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from winnow.arguments import names, refused
from winnow.errors import UsageError
from winnow.policy.describe import parse_topic_configs_file
from winnow.policy.server_properties import parse_server_properties_file
from winnow.policy.sources import Settings, TopicSet, parse_set, parse_topic_set
from winnow.policy.versions import asked_version
from winnow.storage.input_file import read_input

T = TypeVar("T")
Value = str | int | float | bool
Values = Mapping[str, Value]
"""Kafka's name of a setting -> its value."""


def parse_sources(
    *,
    settings: Settings | None = None,
    server_properties: str | Sequence[str] | None = None,
    topic_configs: str | None = None,
    sets: Values | None = None,
    topic_sets: Mapping[str, Values] | None = None,
    kafka_version: str | None = None,
) -> Settings:
    """Parse the sources of settings, which docs/python.md describes. Raises UsageError for a file
    that can't be read and for anything that can't be understood.
    """
    if settings is not None:
        if any((server_properties, topic_configs, sets, topic_sets, kafka_version)):
            raise UsageError("settings= together with other sources", expected="one or the other")
        return settings
    if not isinstance(kafka_version, str | None):  # 3.10 as a number would be 3.1
        raise refused("kafka_version", "a text such as '3.10'", kafka_version)
    by_glob = _values(topic_sets or {}, "topic_sets", "{'orders*': {'retention.ms': 1}}")
    return Settings(
        sets=tuple(
            parse_set(f"{key}={text_of(value)}")
            for key, value in _values(sets or {}, "sets", "{'log.retention.ms': 1}").items()
        ),
        topic_sets=tuple(
            one for glob, values in by_glob.items() for one in parse_topic_values(glob, values)
        ),
        topic_configs=None
        if topic_configs is None
        else parse_topic_configs_file(_read_text(topic_configs), file=topic_configs),
        server_properties=tuple(
            parse_server_properties_file(_read(file), file=file)
            for file in names(server_properties or (), "server_properties")
        ),
        kafka=asked_version(kafka_version, option="kafka_version"),
    )


def parse_topic_values(glob: str, values: Values) -> list[TopicSet]:
    """Parse values as in `--topic-set GLOB:KEY=VALUE`. Raises UsageError for an unknown key and an
    invalid value.
    """
    given = _values(values, f"the settings of {glob!r}", "{'retention.ms': 1}")
    return [parse_topic_set(f"{glob}:{key}={text_of(value)}") for key, value in given.items()]


def text_of(value: Value) -> str:
    """Return the value as Kafka's files spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def chosen(topics: str | Sequence[str]) -> tuple[str, ...]:
    """Return globs. Raises UsageError if there are none: an empty list is not all topics."""
    globs = names(topics, "topics")
    if not globs:
        raise UsageError(
            "topics is empty", expected="a glob, or no topics= for all of them", found="no glob"
        )
    return globs


def _values(found: Mapping[str, T], name: str, expected: str) -> Mapping[str, T]:
    if not isinstance(found, Mapping):
        raise refused(name, expected, found)
    return found


def _read(file: str) -> bytes:
    try:
        return read_input(file)
    except OSError as error:
        raise _unreadable(file, error) from error


def _read_text(file: str) -> str:
    try:
        return _read(file).decode()
    except UnicodeDecodeError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: Exception) -> UsageError:
    return UsageError(
        "can't read a settings file",
        expected="a file that can be read, in UTF-8",
        found=str(error),
        where=file,
    )
