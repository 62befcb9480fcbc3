"""Files beside the code, and where Winnow may keep what it fetches. An installed package has them
inside itself, a checkout at its top.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parents[1]


def is_checkout() -> bool:
    """Return whether the code runs from a checkout, which `spark-submit.sh` sets up."""
    return not (_PACKAGE / "conf").is_dir()


def resource(name: str) -> Path:
    """Return the path of `name`, as `demo/topic-configs.txt` or `conf/jars.txt`."""
    return (_CHECKOUT if is_checkout() else _PACKAGE) / name


def cache_dir() -> Path:
    """Return where files are kept that can be fetched or made again. It need not exist."""
    if is_checkout():
        return _CHECKOUT / ".cache"
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "winnow"
