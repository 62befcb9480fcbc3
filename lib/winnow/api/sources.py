"""The request that the arguments of a Python function make: settings are names of Kafka's files, or
single values as mappings, and the clock is by default the present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from winnow.arguments import names
from winnow.cleaning.request import Request
from winnow.clock import now_ms
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
_SOURCES = (
    *("server_properties", "topic_configs", "sets", "topic_sets", "kafka_version"),
    "replace_cleaner",
)


def request_of(given: Mapping[str, Any], *, touch: bool) -> Request:
    """Return the request that the arguments of a public function make. `given` may have more names,
    such as `spark`.

    Raises UsageError for a file that can't be read and for anything that can't be understood.
    """
    options = {f.name: given[f.name] for f in fields(Request) if f.name in given}
    if "topics" in options:
        options["topics"] = chosen(options["topics"])
    if options["now"] is None:
        options["now"] = now_ms()
    sources = [given[name] for name in _SOURCES]
    if options["settings"] is None:
        options["settings"] = _parsed(*sources)
    elif any(sources):
        raise UsageError("settings= together with other sources", expected="one or the other")
    return Request.of(options, touch=touch)


def _parsed(
    server_properties: str | Sequence[str] | None,
    topic_configs: str | None,
    sets: Values | None,
    topic_sets: Mapping[str, Values] | None,
    kafka_version: str | None,
    replace_cleaner: bool,  # noqa: FBT001 - as the public argument
) -> Settings:
    return Settings(
        sets=tuple(map(parse_set, entries(sets or {}))),
        topic_sets=tuple(
            topic_set
            for glob, values in (topic_sets or {}).items()
            for topic_set in parse_topic_values(glob, values)
        ),
        topic_configs=None
        if topic_configs is None
        else parse_topic_configs_file(_read(topic_configs, bytes.decode), file=topic_configs),
        server_properties=tuple(
            parse_server_properties_file(_read(file, bytes), file=file)
            for file in names(server_properties or (), "server_properties")
        ),
        replace_cleaner=replace_cleaner,
        kafka=asked_version(kafka_version, option="kafka_version"),
    )


def parse_topic_values(glob: str, values: Values) -> list[TopicSet]:
    """Parse values as in `--topic-set GLOB:KEY=VALUE`. Raises UsageError for an unknown key and an
    invalid value.
    """
    return [parse_topic_set(f"{glob}:{entry}") for entry in entries(values)]


def entries(values: Values) -> Iterator[str]:
    """Yield `KEY=VALUE`, as Kafka's files spell it."""
    for key, value in values.items():
        yield f"{key}={str(value).lower() if isinstance(value, bool) else value}"


def chosen(topics: str | Sequence[str]) -> tuple[str, ...]:
    """Return globs. Raises UsageError if there are none: an empty list is not all topics."""
    globs = names(topics, "topics")
    if not globs:
        raise UsageError(
            "topics is empty", expected="a glob, or no topics= for all of them", found="no glob"
        )
    return globs


def _read(file: str, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(read_input(file))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "can't read a settings file",
            expected="a file that can be read, in UTF-8",
            found=str(error),
            where=file,
        ) from error
