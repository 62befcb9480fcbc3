"""The arguments as they were typed. Java, which starts this process, replaces bytes that are not
UTF-8, such as those of a path in Latin-1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_REPLACED = "\ufffd"
_FILE = "arguments"
"""Where spark-submit.sh keeps the arguments, each with a zero byte after it."""


def typed_arguments(given: Sequence[str]) -> list[str]:
    """Return the arguments as they were typed, or `given`, which came through Java, if those cannot
    be found.
    """
    place = os.environ.get("WINNOW_RUN_DIR")
    if place is None or not any(_REPLACED in one for one in given):
        return list(given)
    try:
        with open(f"{place}/{_FILE}", "rb") as file:
            typed = [os.fsdecode(one) for one in file.read().split(b"\0")[:-1]]
    except OSError:
        return list(given)
    # The environment may come from another run.
    same = len(typed) == len(given) and all(
        _REPLACED in one or one == other for one, other in zip(given, typed, strict=True)
    )
    return typed if same else list(given)
