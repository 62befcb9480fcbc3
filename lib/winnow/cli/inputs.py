"""What a command line names, as values: times, settings, files, directories. All mistakes in it are
found here, before Spark starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from winnow.cleaning.asked import SettingsAsked
from winnow.cli.options import CommandLine, value_of
from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.ledger.place import KEY_SUMMARIES, check_ledger, default_ledger, local_path
from winnow.policy.describe import UNCHECKED, Check, SettingEntry
from winnow.policy.sources import Settings
from winnow.resources import user_state_dir
from winnow.runtime.stop import Stop
from winnow.storage.input_file import MOST_PROPERTIES, MOST_SETTINGS, read_input
from winnow.storage.places import Places
from winnow.storage.urls import is_remote


def key_summaries_of(request: CommandLine, ledger: str | None) -> str | None:
    """Return the directory for what is known of segments: in the ledger's, if that is here, or in
    that of the default ledger. None: everything is read.
    """
    if request.read_everything or request.output:
        return None
    local = None if ledger is None else local_path(ledger)
    try:
        return f"{local or user_state_dir('ledger')}/{KEY_SUMMARIES}"
    except UsageError:  # a user without a home
        return None


def ledger_of(request: CommandLine) -> str | None:
    """Return where `clean` records the run; None: nowhere. Raises UsageError for a place where a
    ledger is not allowed.
    """
    if request.no_ledger and request.ledger is not None:
        raise UsageError("--ledger and --no-ledger together", expected="one of them, or neither")
    if request.no_ledger:
        return None
    ledger = default_ledger() if request.ledger is None else request.ledger
    check_ledger(ledger, (*request.log_dirs, *request.output))
    return ledger


def now_of(request: CommandLine) -> int:
    """Return the time that all decisions use, in ms since the epoch. Raises as `parse_now`."""
    now: int | None = value_of(request, "now")
    return now_ms() if now is None else now


def stop_of(request: CommandLine) -> Stop:
    """Return the stop with the time limit. Raises UsageError if --timeout can't be understood."""
    return Stop(timeout_s=value_of(request, "timeout"))


def read_bytes(
    file: str, *, option: str, most: int = MOST_SETTINGS, check: Check = UNCHECKED
) -> bytes:
    """Read the file that an option names. Raises UsageError if that fails."""
    try:
        return read_input(file, most=most, check=check)
    except OSError as error:
        raise _unreadable(file, option, error.strerror) from error


def read_text(file: str, *, option: str, check: Check = UNCHECKED) -> str:
    """Read the file that an option names, as UTF-8. Raises UsageError if that fails."""
    try:
        return read_bytes(file, option=option, check=check).decode()
    except UnicodeDecodeError as error:
        raise _unreadable(file, option, str(error)) from error


def _unreadable(file: str, option: str, found: str | None) -> UsageError:
    return UsageError(
        f"can't read the file of {option}",
        found=found,
        where=file,
        expected="a file that can be read, in UTF-8",
    )


def parse_settings(request: CommandLine, stop: Stop | None = None) -> Settings:
    """Parse all settings. Raises UsageError for anything that can't be understood, and
    StoppedError if `stop` has a reason.
    """
    check = UNCHECKED if stop is None else stop.check
    settings = asked_of(request).parsed(
        text=partial(read_text, option="--topic-configs", check=check),
        data=partial(read_bytes, option="--server-properties", most=MOST_PROPERTIES, check=check),
        check=check,
    )
    of_sets, of_topic_sets = map(request.origins.get, ("sets", "topic_sets"))
    return replace(
        settings,
        sets=tuple(_in_file(entry, of_sets) for entry in settings.sets),
        topic_sets=tuple(
            replace(topic_set, entry=_in_file(topic_set.entry, of_topic_sets))
            for topic_set in settings.topic_sets
        ),
    )


def asked_of(request: CommandLine) -> SettingsAsked:
    """Return where the settings come from."""
    return SettingsAsked(
        server_properties=tuple(request.server_properties),
        topic_configs=request.topic_configs,
        sets=tuple(request.sets),
        topic_sets=tuple(request.topic_sets),
        kafka_version=request.kafka_version,
        allow_other_broker=request.allow_other_broker,
        replace_cleaner=request.replace_cleaner,
    )


def _in_file(entry: SettingEntry, file: str | None) -> SettingEntry:
    return entry if file is None else replace(entry, where=f"{entry.where}, in {file}")


def check_log_dirs(log_dirs: Sequence[str]) -> None:
    """Find mistyped names at once, if there is no directory at all. Whether each is a Kafka log
    directory is checked later: one that is not concerns only itself.
    """
    missing = [one for one in log_dirs if not is_remote(one) and not Path(one).is_dir()]
    files = [one for one in missing if Path(one).exists()]
    for log_dir in log_dirs:
        if is_remote(log_dir):
            Places().canonical(log_dir)  # checks the URL without a request
    if files and len(missing) == len(log_dirs):
        from winnow.logdir.meta import read_meta  # noqa: PLC0415 - rarely needed

        read_meta(Places(), Places().canonical(files[0]))
    if missing and len(missing) == len(log_dirs):
        raise UsageError(
            "no such directory",
            where=missing[0],
            hint="Give the directories of the broker's log.dirs.",
        )
