"""The request that the arguments of a Python function make: settings are names of Kafka's files, or
single values as mappings, and the clock is by default the present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from winnow.arguments import names
from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.request import Request
from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.policy.describe import UNCHECKED, Check
from winnow.storage.input_file import MOST_PROPERTIES, MOST_SETTINGS, read_input

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
    if options["settings"] is None:
        stop = options.get("stop")
        check = UNCHECKED if stop is None else stop.check
        options["settings"] = asked_of(given).parsed(
            text=lambda file: _read(file, bytes.decode, check=check),
            data=lambda file: _read(file, bytes, most=MOST_PROPERTIES, check=check),
            version_option="kafka_version",
            check=check,
        )
    elif any(given[name] for name in _SOURCES):
        raise UsageError("settings= together with other sources", expected="one or the other")
    return Request.of(options, touch=touch)


def asked_of(given: Mapping[str, Any]) -> SettingsAsked:
    """Return where the settings come from, by the arguments of a public function."""
    return SettingsAsked(
        server_properties=names(given["server_properties"] or (), "server_properties"),
        topic_configs=given["topic_configs"],
        sets=tuple(_entries(given["sets"] or {})),
        topic_sets=tuple(
            topic_set
            for glob, values in (given["topic_sets"] or {}).items()
            for topic_set in topic_sets_of(glob, values)
        ),
        kafka_version=given["kafka_version"],
        replace_cleaner=given["replace_cleaner"],
    )


def topic_sets_of(glob: str, values: Values) -> list[str]:
    """Return values as `--topic-set` has them: `GLOB:KEY=VALUE`."""
    return [f"{glob}:{entry}" for entry in _entries(values)]


def _entries(values: Values) -> Iterator[str]:
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


def _read(file: str, decode: Callable[[bytes], T], *, check: Check, most: int = MOST_SETTINGS) -> T:
    try:
        return decode(read_input(file, most=most, check=check))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "can't read a settings file",
            expected="a file that can be read, in UTF-8",
            found=str(error),
            where=file,
        ) from error
