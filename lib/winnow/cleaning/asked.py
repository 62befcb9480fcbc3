"""Where the settings of a run come from, as words that another process can read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from winnow.errors import UsageError
from winnow.policy.describe import UNCHECKED, Check, parse_topic_configs_file
from winnow.policy.server_properties import parse_server_properties_file
from winnow.policy.sources import Settings, parse_set, parse_topic_set
from winnow.policy.versions import asked_version
from winnow.storage.input_file import (
    MOST_PROPERTIES,
    MOST_SETTINGS,
    is_regular,
    read_input,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsAsked:
    """The options that say where settings come from."""

    server_properties: tuple[str, ...] = ()
    topic_configs: str | None = None
    sets: tuple[str, ...] = ()
    """Each as `KEY=VALUE`."""
    topic_sets: tuple[str, ...] = ()
    """Each as `GLOB:KEY=VALUE`."""
    kafka_version: str | None = None
    allow_other_broker: bool = False
    replace_cleaner: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.server_properties, *([self.topic_configs] if self.topic_configs else ()))

    def check_again(self) -> None:
        """Raise UsageError for a pipe or a device: another process could not read it again."""
        for file in self.files:
            with suppress(OSError):  # readers report it
                if not is_regular(file):
                    raise _unreadable(file, "a pipe or a device")

    def for_later(self) -> SettingsAsked:
        """Return the same for another process, which may work in another directory."""
        return replace(
            self,
            server_properties=tuple(map(os.path.abspath, self.server_properties)),
            topic_configs=self.topic_configs and os.path.abspath(self.topic_configs),
        )

    def read(self, check: Check = UNCHECKED) -> Settings:
        """Read and parse everything. Raises UsageError for what can't be read or understood, and
        for a pipe or a device.
        """
        return self.parsed(text=_text, data=partial(_data, most=MOST_PROPERTIES), check=check)

    def parsed(
        self,
        *,
        text: Callable[[str], str],
        data: Callable[[str], bytes],
        version_option: str = "--kafka-version",
        check: Check = UNCHECKED,
    ) -> Settings:
        """Parse everything. Raises UsageError for what can't be understood.

        `text`, `data`: read the file of topic configs, and of a broker's properties. `check`: is
        called for each setting, and may raise.
        `version_option`: the name of the version in an error.
        """
        return Settings(
            sets=tuple(map(parse_set, self.sets)),
            topic_sets=tuple(map(parse_topic_set, self.topic_sets)),
            topic_configs=None
            if self.topic_configs is None
            else parse_topic_configs_file(
                text(self.topic_configs), file=self.topic_configs, check=check
            ),
            server_properties=tuple(
                parse_server_properties_file(data(file), file=file, check=check)
                for file in self.server_properties
            ),
            allow_other_broker=self.allow_other_broker,
            replace_cleaner=self.replace_cleaner,
            kafka=asked_version(self.kafka_version, option=version_option),
        )


def _text(file: str) -> str:
    try:
        return _data(file).decode()
    except UnicodeDecodeError as error:
        raise _unreadable(file, f"other bytes at position {error.start}") from error


def _data(file: str, *, most: int = MOST_SETTINGS) -> bytes:
    try:
        return read_input(file, most=most, regular=True)
    except OSError as error:
        raise _unreadable(file, error.strerror) from error


def _unreadable(file: str, found: str | None) -> UsageError:
    return UsageError(
        "can't read a settings file",
        expected="a regular file that can be read again, in UTF-8",
        found=found,
        where=file,
    )
