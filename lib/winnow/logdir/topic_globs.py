"""Globs over topics that a user typed. One that matches nothing is a mistake, not a success."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from winnow.errors import UsageError


def check_globs(globs: Iterable[str], topics: Collection[str], *, option: str) -> None:
    """Raise UsageError for an empty glob, and for one that matches no topic of the log directories.

    `topics`: those of all log directories together. A glob may match in only one of them. Without
    any topic there is nothing to compare with.
    """
    for glob in globs:
        if not glob:
            raise UsageError(
                f"{option} has an empty glob",
                expected="the name of a topic, or a pattern such as 'orders*'",
                hint="Is a variable of the shell empty?",
            )
        if topics and not any(fnmatchcase(topic, glob) for topic in topics):
            near = difflib.get_close_matches(glob, sorted(topics), n=3)
            raise UsageError(
                f"{option} matches no topic of the log directories",
                expected="a glob that matches at least one topic",
                found=repr(glob),
                hint=f"Similar: {', '.join(near)}." if near else "`plan` lists the topics.",
            )
