"""Globs over topics that a user typed. One that matches nothing is a mistake, not a success."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from winnow.errors import UsageError

LOG_DIRS = "the log directories"


def is_wanted(topic: str, globs: Collection[str], exclude: Collection[str] = ()) -> bool:
    """Return whether a glob matches the topic, and none of `exclude` does. Without globs, all other
    topics are wanted.
    """
    wanted = not globs or any(fnmatchcase(topic, glob) for glob in globs)
    return wanted and not any(fnmatchcase(topic, glob) for glob in exclude)


def check_globs(
    globs: Iterable[str],
    topics: Collection[str],
    *,
    option: str,
    of: str = LOG_DIRS,
) -> None:
    """Raise UsageError for an empty glob, and for one that matches no topic.

    `topics`: those of all log directories together, or `of` something else. A glob may match in
    only one directory. Without any topic there is nothing to compare with.
    """
    for glob in globs:
        if not glob:
            raise UsageError(
                f"{option} has an empty glob",
                expected="the name of a topic, or a pattern such as 'orders*'",
                hint="Is a variable of the shell empty?",
            )
        if topics and not any(fnmatchcase(topic, glob) for topic in topics):
            raise UsageError(
                f"{option} matches no topic of {of}",
                expected="a glob that matches at least one topic",
                found=repr(glob),
                hint=_what_to_do(glob, topics)
                or ("`plan` lists the topics." if of == LOG_DIRS else None),
            )


def _what_to_do(glob: str, topics: Collection[str]) -> str | None:
    if glob.rpartition("-")[0] in topics:
        return f"{glob} names a partition; its topic is {glob.rpartition('-')[0]}."
    if "," in glob:
        return "Give the option once for each glob: a comma does not separate globs."
    by_small = {topic.lower(): topic for topic in sorted(topics)}
    near = [by_small[one] for one in difflib.get_close_matches(glob.lower(), by_small, n=3)]
    return f"Similar: {', '.join(near)}." if near else None
