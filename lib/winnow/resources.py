"""Files beside the code, and where Winnow may keep what it fetches. An installed package has them
inside itself, a checkout at its top.
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


def resource(name: str) -> Path:
    """Return the path of `name`, as `demo/topic-configs.txt` or `conf/jars.txt`."""
    return (_CHECKOUT if is_checkout() else _PACKAGE) / name


def user_cache_dir() -> Path | None:
    """Return where the user's files are kept that can be made again; None without a home."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "winnow" if os.path.isabs(home) else None


def own_cache() -> Path | None:
    """Return where this installation keeps its files. It need not exist. None without a place."""
    return _CHECKOUT / ".cache" if is_checkout() else user_cache_dir()


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
