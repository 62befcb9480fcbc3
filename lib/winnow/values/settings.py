"""Settings in Python: the names of Kafka's files, and single values as mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from winnow.errors import UsageError
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings, TopicSet, parse_set, parse_topic_set
from winnow.policy.versions import asked_version

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
    return Settings(
        sets=tuple(parse_set(f"{key}={text_of(value)}") for key, value in (sets or {}).items()),
        topic_sets=tuple(
            one
            for glob, values in (topic_sets or {}).items()
            for one in parse_topic_values(glob, values)
        ),
        topic_configs=None if topic_configs is None else parse_topic_configs(_read(topic_configs)),
        server_properties=tuple(
            parse_server_properties(_read(file), file=file)
            for file in listed(server_properties or ())
        ),
        kafka=asked_version(kafka_version, where="kafka_version"),
    )


def parse_topic_values(glob: str, values: Values) -> list[TopicSet]:
    """Parse values as in `--topic-set GLOB:KEY=VALUE`. Raises UsageError for an unknown key and an
    invalid value.
    """
    return [parse_topic_set(f"{glob}:{key}={text_of(value)}") for key, value in values.items()]


def text_of(value: Value) -> str:
    """Return the value as Kafka's files spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def listed(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name or several names as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "can't read a settings file",
            expected="a file that can be read, in UTF-8",
            found=str(error),
            where=file,
        ) from error
