"""Save a plan with `plan --out FILE`, and carry it out with `apply FILE`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from winnow.cli.inputs import read_bytes
from winnow.cli.options import SETTINGS, WHAT, CommandLine, names_of
from winnow.cli.out import complain
from winnow.errors import UsageError, WinnowError
from winnow.storage.output_file import OutputFile, read_output
from winnow.storage.urls import is_remote
from winnow.words import instant

if TYPE_CHECKING:
    from winnow.cleaning.plan.saved import SavedPlan
    from winnow.cleaning.request import Request
    from winnow.cleaning.result import RunResult
    from winnow.storage.own_json import JsonValue

_LONGEST_OPTION, _LONGEST_OPTIONS = 1 << 17, 1 << 21
"""Maximum length in characters of an option of a plan, and of all together: those of Linux for a
command line.
"""
_DOES_NOT_DECIDE = {"now", "estimate", "config", "environment"}
DECIDE = (
    *(name for name in names_of(WHAT, SETTINGS) if name not in _DOES_NOT_DECIDE),
    "free_at_least",
)
"""Options that decide what is done, besides the clock. A saved plan has them; `apply` takes none of
them.
"""


class Saving:
    """A plan that is to be saved. Raises UsageError if it could not be carried out, or the file
    could not be written.
    """

    def __init__(self, verb: str, request: CommandLine, now: int) -> None:
        self._request, self._now, self._path = request, now, request.out or ""
        self._file = OutputFile(self._path, "--out", "the plan")
        if request.output or any(map(is_remote, request.log_dirs)):
            raise UsageError(
                f"{verb} --out is for log directories of this machine that are cleaned in place",
                expected="no --output, and directories",
                found=", ".join((*request.log_dirs, *request.output)),
            )
        self._file.check(request.log_dirs, room=0)
        # Before the plan is made: a file that changes meanwhile makes `apply` refuse.
        self._files = {
            os.path.realpath(file): _digest(file, option) for option, file in _files(request)
        }
        self._partitions: Mapping[str, Mapping[str, Any]] = {}
        self._log_dirs: Sequence[Any] = ()

    def check(self, prepared: Sequence[Any], request: Request) -> None:
        """Keep what was found and decided, while the log directories are locked."""
        from winnow.cleaning.plan.saved import LogDirOf, found_and_decided  # noqa: PLC0415

        self._partitions = found_and_decided(prepared)
        self._log_dirs = [
            LogDirOf.read(request.storage, os.path.realpath(path))
            for path in self._request.log_dirs
        ]

    def write(self, result: RunResult) -> None:
        """Write the file, for its owner only. Raises WinnowError if that fails."""
        from winnow.cleaning.plan.saved import SavedPlan, as_json  # noqa: PLC0415
        from winnow.storage.own_json import JsonValue  # noqa: PLC0415

        asked = {name: getattr(self._request, name) for name in DECIDE}
        # A plan has the real paths of files, and a digest of what was in them.
        asked["server_properties"] = [*map(os.path.realpath, asked["server_properties"])]
        if asked["topic_configs"]:
            asked["topic_configs"] = os.path.realpath(asked["topic_configs"])
        plan = SavedPlan(
            now=self._now,
            log_dirs=self._log_dirs,
            asked={
                name: JsonValue(
                    list(value) if isinstance(value, tuple | list) else value, self._path
                )
                for name, value in asked.items()
                if value
            },
            files=self._files,
            kafka_version=result.kafka_version,
            kafka_version_source=result.kafka_version_source,
            partitions=self._partitions,
        )
        self._file.write(as_json(plan))
        complain(f"note: the plan is in {self._path}: `apply` carries it out")


def _files(request: CommandLine) -> list[tuple[str, str]]:
    """Return the option and the name of each file of settings."""
    found = [("--server-properties", file) for file in request.server_properties]
    if request.topic_configs is not None:
        found.append(("--topic-configs", request.topic_configs))
    return found


def _digest(file: str, option: str) -> str:
    if not os.path.isfile(file):  # a pipe gives its content only once
        raise UsageError(
            f"the file of {option} is no file",
            expected="a regular file, with a plan that is saved",
            found=file,
        )
    return hashlib.sha256(read_bytes(file, option=option)).hexdigest()


def load(file: str, line: CommandLine) -> tuple[CommandLine, SavedPlan]:
    """Read a saved plan. Return `line` with its words, and the plan.

    Raises UsageError for a file that is no plan, and WinnowError if a file of settings has changed
    since the plan was made.
    """
    from winnow.cleaning.plan.saved import MOST_BYTES, parse_plan  # noqa: PLC0415 - it loads numba

    try:
        data = read_output(os.path.realpath(file), most=MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "the plan can't be read",
            expected="a file that `plan --out` wrote",
            found=error.strerror,
            where=file,
        ) from error
    plan = parse_plan(data, file)
    _check_lengths(plan.asked)
    asked = {name: _typed(name, value) for name, value in plan.asked.items()}
    line = replace(
        line, log_dirs=tuple(one.path for one in plan.log_dirs), now=str(plan.now), **asked
    )
    for option, name in _files(line):
        before = plan.files.get(name)
        if before is None or not os.path.isabs(name):
            raise UsageError(
                "the plan has no digest of a file of settings",
                expected="one for each",
                found=f"none of {name}",
                where=file,
            )
        if os.path.realpath(name) != name or _digest(name, option) != before:
            raise WinnowError(
                f"the file of {option} has changed since the plan was made",
                where=name,
                hint="Nothing was cleaned. Make a new plan.",
            )
    complain(f"note: the time of all decisions is that of the plan, {instant(plan.now)}")
    return line, plan


def _check_lengths(asked: Mapping[str, JsonValue]) -> None:
    """Raise UsageError for options that no command line could have."""
    total = 0
    for name, value in asked.items():
        texts = value.raw if isinstance(value.raw, list) else [value.raw]
        lengths = [len(one) for one in (name, *texts) if isinstance(one, str)]
        total += sum(lengths) + len(texts)
        if max(lengths, default=0) > _LONGEST_OPTION or total > _LONGEST_OPTIONS:
            raise UsageError(
                "the options of a plan are too long",
                expected=f"at most {_LONGEST_OPTION} characters each, and {_LONGEST_OPTIONS} "
                "together",
                found=f"more in {name[:80]}",
                where=value.path,
            )


def _typed(name: str, value: JsonValue) -> Any:  # noqa: ANN401 - as the field has it
    if name not in DECIDE:
        raise UsageError(
            "an option of a plan is unknown",
            expected=", ".join(DECIDE),
            found=name[:80],
            where=value.path,
        )
    kind, raw = get_type_hints(CommandLine)[name], value.raw
    if kind is bool:
        fits, expected = isinstance(raw, bool), "true or false"
    elif kind == Sequence[str]:
        fits = isinstance(raw, list) and all(isinstance(one, str) for one in raw)
        expected = "a list of texts"
    else:
        parts = (kind, *get_args(kind))  # one of them may be a Literal
        choices = [one for part in parts for one in get_args(part) if isinstance(one, str)]
        fits = isinstance(raw, str) and (not choices or raw in choices)
        expected = " or ".join(choices) or "a text"
    if not fits:
        raise UsageError(
            f"the option {name} of a plan can't be understood",
            expected=expected,
            found=repr(raw)[:80],
            where=value.path,
        )
    return tuple(raw) if isinstance(raw, list) else raw
