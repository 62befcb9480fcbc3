"""Where the ledger is: in a directory or at a URL. Never in a log directory, where it would confuse
a broker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from winnow.errors import UsageError
from winnow.resources import user_state_dir

TABLE = "partitions-v1"
"""The table of cleanings, named after its schema. Another schema would be another table beside it.
"""
ERASURES = "erasures-v1"
"""The table of erasures."""
KEY_SUMMARIES = "key-summaries"
"""Beside the tables: what is known of segments (`winnow.cleaning.summaries`), for one user."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def default_ledger() -> str:
    """Return `WINNOW_LEDGER`, or by default a directory beside the user's other state. Raises
    UsageError if the user has no home.
    """
    try:
        return os.environ.get("WINNOW_LEDGER") or str(user_state_dir("ledger"))
    except UsageError as error:
        raise UsageError(
            "there is no directory for the ledger",
            found="no home directory",
            hint="Pass --ledger DIRECTORY or --no-ledger, or set WINNOW_LEDGER.",
        ) from error


def table_url(ledger: str, table: str = TABLE) -> str:
    """Return a table's root as Hadoop names it. A path without a scheme is on this machine,
    regardless of `fs.defaultFS`.
    """
    local = local_path(ledger)
    return f"{ledger.rstrip('/') if local is None else f'file:{local}'}/{table}"


def local_path(ledger: str) -> Path | None:
    """Return the local path; None if the ledger is not in a file system of this machine."""
    path = ledger.removeprefix("file:")
    if _SCHEME.match(ledger):
        if path == ledger:
            return None
    else:
        path = str(Path(ledger).absolute())
    return Path("/" + path.lstrip("/"))  # in a URL, what follows // is a host


def check_ledger(ledger: str, log_dirs: Sequence[str]) -> None:
    """Raise UsageError for a ledger inside a log directory, and for an empty one."""
    if not ledger:
        raise UsageError("--ledger is empty", expected="a directory or a URL")
    path = local_path(ledger)
    for log_dir in log_dirs:
        inside = (
            f"{ledger}/".startswith(f"{log_dir.rstrip('/')}/")
            if path is None
            else Path(os.path.realpath(path)).is_relative_to(os.path.realpath(log_dir))
        )
        if inside:
            raise UsageError(
                "the ledger can't be inside a log directory",
                found=ledger,
                where=log_dir,
                hint="A broker refuses to start if it finds a directory that is not a partition. "
                "Put the ledger elsewhere.",
            )
