"""Files beside the code, and directories of the user. An installed package has the files inside
itself, a checkout at its top.
"""

from __future__ import annotations

import os
from pathlib import Path

from winnow.errors import UsageError

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parents[1]


def is_checkout() -> bool:
    """Return whether the code runs from a checkout, which `spark-submit.sh` sets up."""
    return not (_PACKAGE / "conf").is_dir()


def program() -> str:
    """Return the command that people type before a verb."""
    return "./spark-submit.sh" if is_checkout() else "winnow"


def resource(name: str) -> Path:
    """Return the path of `name`, as `demo/topic-configs.txt` or `conf/jars.txt`."""
    return (_CHECKOUT if is_checkout() else _PACKAGE) / name


def user_dir(variable: str = "XDG_CACHE_HOME", default: str = ".cache") -> Path | None:
    """Return where the user's files are kept, by default those that can be made again: in the
    directory that the variable names, if it is absolute, or in `~/DEFAULT`. None without a home.
    """
    given = os.environ.get(variable, "")
    home = given if os.path.isabs(given) else os.path.expanduser(f"~/{default}")
    return Path(home) / "winnow" if os.path.isabs(home) else None


def user_state_dir(name: str) -> Path:
    """Return where results of runs are kept. Raises UsageError if the user has no home."""
    state = user_dir("XDG_STATE_HOME", ".local/state")
    if state is None:
        raise UsageError(
            f"there is no directory for {name}",
            found="no home directory",
            hint="Set XDG_STATE_HOME to a directory of your own.",
        )
    return state / name


def own_cache() -> Path | None:
    """Return where this installation keeps its files. It need not exist. None without a place."""
    return _CHECKOUT / ".cache" if is_checkout() else user_dir()


def cache_dir() -> Path:
    """Return where files are kept that can be fetched or made again. It need not exist. Raises
    UsageError if an installed package has no place for them.
    """
    found = own_cache()
    if found is None:
        raise UsageError(
            "there is no directory to keep fetched files in",
            found="no home directory",
            hint="Set XDG_CACHE_HOME to a directory of your own.",
        )
    return found
