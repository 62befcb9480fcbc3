"""Parse the values of Kafka's config keys (`winnow.policy.config`)."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from winnow.errors import UsageError
from winnow.policy.config import (
    BY_BROKER_NAME,
    BY_TOPIC_NAME,
    INT_MAX,
    LONG_MAX,
    UNLIMITED_OR_POSITIVE,
    ConfigType,
    Value,
)
from winnow.policy.ignored_settings import TOPIC_KEYS, is_meaningless_broker_key
from winnow.policy.versions import TRANSACTIONAL_ID, Range

TOPIC_NAMES = BY_TOPIC_NAME.keys() | TOPIC_KEYS.keys()
"""All topic configs of Kafka."""
NOT_DYNAMIC = "is ignored, as by a broker, which reads it from server.properties only"
"""The end of the note on a dynamic value of a setting that is not dynamic."""
STATIC = {
    "log.retention.minutes",
    "log.retention.hours",
    "log.cleaner.enable",
    "remote.log.storage.system.enable",
    TRANSACTIONAL_ID,
}
"""A broker reads these from server.properties only, and ignores a dynamic value. Controllers accept
any.
"""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A key that Kafka knows and that does not matter to an offline cleaner."""

    key: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A bad value that is refused only where it counts, because nobody typed it for this run."""

    why: str


def parse_topic_value(name: str, text: str, *, where: str) -> Value | Ignored | None:
    """Return the checked value of a topic config. None if Kafka has no such key. UsageError for a
    wrong value and for a broker's name.
    """
    key = BY_TOPIC_NAME.get(name)
    if key is not None:
        return parse_value(name, text, key.kind, key.allowed, where=where)
    if name in TOPIC_KEYS:
        _check_ignored(name, text, where=where)
        return Ignored(name)
    hint = None
    if name in BY_BROKER_NAME:
        row = BY_BROKER_NAME[name][0]
        topics = f"The topic's name for it is {row.name}."
        hint = "It can be given with --set." if row.broker_only else topics
    elif not is_meaningless_broker_key(name):
        return None
    raise UsageError(
        f"{name} is a broker config", expected="a topic config", where=where, hint=hint
    )


def parse_broker_value(name: str, text: str, *, where: str) -> Value | Ignored | None:
    """Return a broker config's checked value in the topic's unit. None if Kafka has no such key."""
    row = BY_BROKER_NAME.get(name)
    if row is None:
        return Ignored(name) if is_meaningless_broker_key(name) else None
    synonym = row[1]
    value = parse_value(name, text, synonym.kind, synonym.allowed, where=where)
    if isinstance(value, int) and not isinstance(value, bool):
        unlimited = synonym.allowed == UNLIMITED_OR_POSITIVE and value < 0
        return -1 if unlimited else value * synonym.unit
    return value


def unless_wrong(
    parse: Callable[..., Value | Ignored | None], name: str, text: str, *, where: str
) -> Value | Ignored | Wrong | None:
    """Parse a value that nobody typed for this run. Return an error as `Wrong`."""
    try:
        return parse(name, text, where=where)
    except UsageError as error:
        return Wrong(str(error))


def unknown_topic_key(name: str, *, where: str) -> UsageError:
    return unknown_key(name, sorted(TOPIC_NAMES), where=where)


def unknown_key(name: str, names: list[str], *, where: str) -> UsageError:
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Kafka has no config of that name."
    return UsageError(f"unknown config {name!r}", where=where, hint=hint)


def _check_ignored(name: str, text: str, *, where: str) -> None:
    accepted = TOPIC_KEYS[name]
    if isinstance(accepted, tuple):
        parse_value(name, text, *accepted, where=where)
        return
    parts = (part.strip() for part in text.split(","))
    if not accepted(",".join(parts)):
        raise UsageError(
            f"{name} has a wrong value",
            expected="a value that Kafka accepts",
            found=repr(text),
            where=where,
        )


def parse_value(name: str, text: str, kind: ConfigType, allowed: Range, *, where: str) -> Value:
    text = text.strip()
    value = _read(text, kind)
    if value is None:
        raise UsageError(
            f"{name} has a wrong value", expected=kind.value, found=repr(text), where=where
        )
    if isinstance(value, int | float) and not allowed.has(value):
        raise UsageError(f"{name} is out of range", expected=str(allowed), found=text, where=where)
    return value


def _read(text: str, kind: ConfigType) -> Value | None:
    if kind is ConfigType.POLICY:
        parts = {part.strip().lower() for part in text.split(",") if part.strip()}
        return None if parts - {"compact", "delete"} else ",".join(sorted(parts))
    if kind is ConfigType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    try:
        if kind is ConfigType.DOUBLE:
            return float(text)
        number = int(text)
    except ValueError:
        return None
    limit = INT_MAX if kind is ConfigType.INT else LONG_MAX
    # Python reads 1_000, Java does not; a broker would refuse the value.
    return number if -limit - 1 <= number <= limit and "_" not in text else None
