"""Options from a file: `--config FILE`, in TOML.

The keys are the long options of the verbs, without dashes, and `log-dir`. There is no table of keys
here: they are read off the verbs' own parameters. A file is read only if it is named, by `--config`
or by WINNOW_CONFIG. It is never looked for, because the current directory may be anybody's.

    throttle = "200MiB"               # for all verbs that share the option
    [clean]                           # for one verb
    timeout = "45m"
    [environment.prod]                # with --environment prod
    log-dir = ["/var/lib/kafka"]
    [environment.prod.clean]
    keep-replaced = true

The most specific table wins: a verb's in an environment, the environment's, a verb's, the top. An
option on the command line wins over all of them.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

from typer.exceptions import TyperException

from winnow.cli.options import CommandLine, Parse
from winnow.errors import UsageError
from winnow.storage.output_file import read_output

MOST_BYTES = 1 << 20
MOST_DOTS = 16
"""Per line, outside of texts. A key with 100,000 dots would take minutes: their number squared."""
_TEXT = re.compile(r"""\"(?:[^"\\]|\\.)*+(?P<end>"?)|'[^']*'""")
"""A text, or the rest of a line with a quotation mark that has no other: so it takes linear time.
"""
_INTEGER_BITS = 64
_LONGEST_KEY = 80
"""Characters that an error shows, and that are compared with the options."""
ENVIRONMENT = "environment"
_NOT_IN_FILES = {"help", "config", ENVIRONMENT}
_ARGUMENTS = {"log_dirs": "log-dir"}
_SHARED = {one.name for one in fields(CommandLine)}
"""Options of several verbs. Only these may be outside of a verb's table."""


@dataclass(frozen=True, slots=True)
class OptionKey:
    """An option of a verb, as a file names it."""

    parameter: Any
    """typer's."""
    parse: Parse | None
    """Reads one value. None: it is taken as it is."""


Keys = Mapping[str, OptionKey]


def keys_of(command: Any) -> Keys:  # noqa: ANN401 - typer's
    found = {}
    for one in command.params:
        key = one.opts[0].lstrip("-") if one.param_type_name == "option" else None
        key = _ARGUMENTS.get(one.name) if key is None else key
        if key is not None and key not in _NOT_IN_FILES:
            found[key] = OptionKey(one, command.callback.parsers.get(one.name))
    return found


@dataclass(frozen=True, slots=True)
class Given:
    """The value of one option, and the file and the table that have it."""

    name: str
    """Of the parameter."""
    option: str
    value: bool | str | list[str]
    where: str


def options_of_file(
    path: str, *, verb: str, environment: str | None, verbs: Mapping[str, Keys]
) -> dict[str, Given]:
    """Return the options that a file gives to a verb, by their parameters. Raises UsageError for
    anything in the whole file that a verb would not understand, and for an environment that it does
    not have.
    """
    whole = _read(path)
    environments = whole.get(ENVIRONMENT, {})
    if not isinstance(environments, dict) or not all(
        isinstance(one, dict) for one in environments.values()
    ):
        expected = f"tables [{ENVIRONMENT}.NAME]"
        raise _unclear("environments", expected, "something else", path)
    if environment is not None and environment not in environments:
        raise UsageError(
            "unknown environment",
            expected=" or ".join(environments) or f"a table [{ENVIRONMENT}.NAME]",
            found=repr(environment),
            where=path,
        )
    found: dict[str, Given] = {}
    # All tables are checked, and the more specific ones come later.
    for name, table in [(None, whole), *environments.items()]:
        for of_verb in (None, *(one for one in verbs if one in table)):
            title = [] if name is None else [ENVIRONMENT, name]
            title += [] if of_verb is None else [of_verb]
            where = f"{path}, [{'.'.join(title)}]" if title else path
            own = table if of_verb is None else table[of_verb]
            for taker, given in _given(own, of_verb, verbs, where, top=name is None):
                if taker == verb and name in {None, environment}:
                    found[given.name] = given
    return found


def _given(
    table: object, of_verb: str | None, verbs: Mapping[str, Keys], where: str, *, top: bool
) -> Iterator[tuple[str, Given]]:
    """Yield each option of one table for each verb that takes it, and check all of them."""
    if not isinstance(table, dict):
        raise _unclear("the options of a verb", "a table", _shown(table), where)
    others = {} if of_verb is not None else dict.fromkeys((*verbs, *([ENVIRONMENT] if top else [])))
    for key, value in table.items():
        if key in others:
            continue
        takers = {
            name: keys[key]
            for name, keys in verbs.items()
            if key in keys
            and (of_verb == name or (of_verb is None and keys[key].parameter.name in _SHARED))
        }
        if not takers:
            raise _unknown(key, of_verb, verbs, where, others)
        for name, known in takers.items():
            one = known.parameter
            option = one.opts[0] if one.opts[0][:1] == "-" else "LOG_DIR"
            given = Given(one.name, option, _typed(key, value, one, where), where)
            _check(given, known)
            yield name, given


def _check(given: Given, known: OptionKey) -> None:
    """Raise UsageError, with the file's table, for a value that the option does not take."""
    words = given.value if isinstance(given.value, list) else [given.value]
    if "" in words:
        raise UsageError(f"{given.option} is empty", expected="a value", where=given.where)
    try:
        known.parameter.process_value(None, given.value)
        if known.parse is not None:
            for one in words:
                known.parse(str(one), option=given.option)
    except TyperException as error:
        raise UsageError(
            f"the value of {given.option} can't be understood",
            found=error.message,
            where=given.where,
            hint=f"`--help` lists what {given.option} takes.",
        ) from None
    except UsageError as error:
        where = given.where if error.where is None else f"{error.where}, in {given.where}"
        raise error.at(where) from None


def _unknown(
    key: str, of_verb: str | None, verbs: Mapping[str, Keys], where: str, others: Mapping[str, Any]
) -> UsageError:
    key = key[:_LONGEST_KEY]
    owners = [name for name, keys in verbs.items() if key in keys]
    if owners:
        return UsageError(
            f"{key} is an option of {' and '.join(owners)} only",
            expected=f"it in the table of a verb, such as [{owners[0]}]",
            found=key,
            where=where,
        )
    known = {one for name, keys in verbs.items() if of_verb in {None, name} for one in keys} | {
        *others
    }
    near = difflib.get_close_matches(key, sorted(known), n=3)
    return UsageError(
        "a key that is no option",
        expected="a long option without its dashes"
        + ("" if of_verb is None else f", of {of_verb}"),
        found=key,
        where=where,
        hint=f"Similar: {', '.join(near)}." if near else "`VERB --help` lists the options.",
    )


def _typed(
    key: str,
    value: object,
    parameter: Any,  # noqa: ANN401 - typer's
    where: str,
) -> bool | str | list[str]:
    """Return the value as the command line would have it: a text, which the option's own parser
    reads.
    """
    several = parameter.nargs == -1 or getattr(parameter, "multiple", False)
    if getattr(parameter, "is_flag", False):
        if isinstance(value, bool):
            return value
        expected = "true or false"
    elif several:
        items = value if isinstance(value, list) else [value]
        # No glob would be all topics: the opposite of what an empty list looks like.
        empty = not items and key in {"topics", *_ARGUMENTS.values()}
        if all(isinstance(one, str) for one in items) and not empty:
            return [str(one) for one in items]
        expected = "a text or a list, with nothing but texts in it"
    else:
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, str) or (type(value) is int and value.bit_length() <= _INTEGER_BITS):
            return str(value)
        expected = "a text"
    raise _unclear(f"the value of {key}", expected, _shown(value), where)


def _unclear(what: str, expected: str, found: str, where: str) -> UsageError:
    return UsageError(f"{what} can't be understood", expected=expected, found=found, where=where)


def _shown(value: object) -> str:
    names = {dict: "a table", list: "a list", date: "a date"}
    if value == []:
        return "an empty list"
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        return "an integer that is too large"  # Python refuses to print it
    return names.get(type(value)) or repr(value)[:80]


def _read(path: str) -> dict[str, Any]:
    try:
        data = read_output(os.path.realpath(path), most=MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    if len(data) > MOST_BYTES:
        raise _unreadable(path, f"more than {MOST_BYTES} bytes")
    try:
        text = data.decode()
        for number, line in enumerate(text.split("\n"), start=1):
            if line.count(".") > MOST_DOTS and _dots_outside(line) > MOST_DOTS:
                raise _unreadable(path, f"more than {MOST_DOTS} dots in line {number}")
        return tomllib.loads(text)
    except RecursionError:
        raise _unreadable(path, "too many tables inside each other") from None
    except ValueError as error:  # of TOML, or of UTF-8
        raise _unreadable(path, str(error)) from None


def _dots_outside(line: str) -> int:
    return _TEXT.sub(lambda text: text[0] if text["end"] == "" else "", line).count(".")


def _unreadable(path: str, found: str | None) -> UsageError:
    return UsageError(
        "the configuration can't be read",
        expected="a file in TOML",
        found=found,
        where=path,
        hint="Look at --config and WINNOW_CONFIG.",
    )
