"""The commands that a page names as the next ones, as a person types them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence

from winnow.cli.options import CommandLine
from winnow.resources import program


def command(
    arguments: Sequence[str], request: CommandLine, log_dirs: Sequence[str] = ()
) -> list[str]:
    """Return the words to type, with the log directories and settings that this run was given.
    `log_dirs`: those that the command takes, if it does not take all.
    """
    verb, *options = arguments
    decides = verb in ("plan", "clean", "doctor", "explain")
    given = [
        *(
            ("--topic-configs", request.topic_configs)
            if request.topic_configs and "--topic-configs" not in options
            else ()
        ),
        *(word for file in request.server_properties for word in ("--server-properties", file)),
        *(("--allow-other-broker",) if request.allow_other_broker else ()),
        *(word for value in request.sets for word in ("--set", value)),
        *(word for value in request.topic_sets for word in ("--topic-set", value)),
        *(("--kafka-version", request.kafka_version) if request.kafka_version else ()),
        *(("--replace-cleaner",) if request.replace_cleaner and decides else ()),
    ]
    if verb == "verify":
        given = []
    elif "--topics" not in options and verb in ("plan", "clean", "doctor"):
        given += [word for value in request.topics for word in ("--topics", value)]
    # Of several values for a topic the last one counts.
    words = [*given, *options] if "--topic-set" in options else [*options, *given]
    return [program(), verb, *(log_dirs or request.log_dirs), *words]


def typed(words: Iterable[str]) -> str:
    """Return a command as bash reads it. It has no character that a terminal would obey."""
    return " ".join(
        shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_in_quotes, word))}'"
        for word in words
    )


def _in_quotes(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    # As bytes: a name may be invalid UTF-8.
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
