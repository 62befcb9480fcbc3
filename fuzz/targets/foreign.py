"""A whole log directory in which links, pipes, sparse files and the like have the places of some
files.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from fuzz.scratch import directory
from fuzz.targets.base import Target, require
from tests.unit.logdir.foreign import KINDS, NAMES, UNREADABLE, make, put, state_of
from tests.unit.logdir.foreign_verbs import VERBS
from winnow.errors import CorruptLogError, WinnowError

_MOST = 3


def _foreign(data: bytes) -> None:
    """Byte 0: the verb; then up to three times two bytes: which file, and what has its place."""
    verb, act = [*VERBS.items()][(data[0] if data else 0) % len(VERBS)]
    home = Path(directory()) / "foreign"
    try:
        log_dir = make(home)
        for name, kind in zip(data[1 : 2 * _MOST : 2], data[2 : 2 * _MOST + 1 : 2], strict=False):
            _put(log_dir, NAMES[name % len(NAMES)], [*KINDS][kind % len(KINDS)])
        before = state_of(home / "outside")
        try:
            told = f"{act(log_dir)}"
        except OSError as error:
            raise CorruptLogError(str(error)) from None
        except WinnowError as error:
            require(
                UNREADABLE not in str(error), "an error shows what is in a file of somebody else"
            )
            raise
        finally:
            require(state_of(home / "outside") == before, "something outside was changed")
        require(
            UNREADABLE not in told or verb == "inspect",
            "what is in a file of somebody else is shown",
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _put(log_dir: Path, name: str, kind: str) -> None:
    """Unless the one before has made it a place outside, or none."""
    parent = (log_dir / name).parent
    if parent.is_dir() and parent.resolve() == parent:
        put(log_dir, name, kind)


TARGETS = {
    "foreign-files": Target(
        check=_foreign,
        seeds=lambda: [
            bytes((verb, name, kind))
            for verb in range(len(VERBS))
            for name, kind in ((1, 7), (9, 1))
        ],
        weight=1,
        refusals=(WinnowError,),
    ),
}
