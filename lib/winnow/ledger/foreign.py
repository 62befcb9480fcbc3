"""Refuse what no run writes into a ledger: Delta follows links and absolute paths, waits for pipes,
and reads commits, checksums and the ends of Parquet files as a whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from winnow.errors import WinnowError
from winnow.ledger.place import local_path, table_url
from winnow.storage.way import why_not_ours

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = "_delta_log"
_LARGEST, _LARGEST_PARQUET = 64 << 20, 256 << 20
"""Bytes. A commit of a run takes some KiB, and its data some bytes for each partition."""


def check_files(ledger: str, table: str) -> None:
    """Raise WinnowError for anything in a local table but directories and regular files, and for a
    file that is too large. A link could lead a run to write elsewhere.
    """
    root = local_path(ledger)
    if root is None:
        return
    for path, status in _entries(f"{root}/{table}"):
        if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
            raise _foreign(path, "a link" if stat.S_ISLNK(status.st_mode) else "no regular file")
        if status.st_size > (_LARGEST_PARQUET if path.endswith(".parquet") else _LARGEST):
            raise _foreign(path, f"a file of {status.st_size} bytes")


def check_ours(ledger: str, table: str = "") -> None:
    """Raise WinnowError if another user can change where a local ledger is. Delta writes by path:
    a link that is put there after the last look would lead this run to write elsewhere.
    """
    root = local_path(ledger)
    if root is None:
        return
    try:
        # Links below the ledger have been refused.
        reasons = map(why_not_ours, (str(root), f"{root}/{table}", f"{root}/{table}/{_LOG}"))
        reason = next(filter(None, reasons), None)
    except OSError as error:
        reason = str(error)
    if reason is not None:
        raise WinnowError(
            "another user could lead a run to write elsewhere than into the ledger",
            expected="directories that only this user, root, or a group of this user can change",
            found=reason,
            where=str(root),
            hint="Name a directory of your own with --ledger.",
        )


def _entries(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path, and all that is below it without following links."""
    left = [path]  # somebody may have made more levels than Python can call itself
    while left:
        at = left.pop()
        try:
            status = os.lstat(at)
            names = os.listdir(at) if stat.S_ISDIR(status.st_mode) else []
        except FileNotFoundError:  # another writer may remove a file
            continue
        except OSError as error:
            raise _foreign(at, error.strerror or "unreadable") from error
        yield at, status
        left += [f"{at}/{name}" for name in names]


def check_inputs(rows: DataFrame, ledger: str, table: str) -> None:
    """Raise WinnowError if a table refers to files outside of its directory. A commit of Delta may
    name a file of data, or a deletion vector, by any path or URL.
    """
    session = rows.sparkSession
    # pyspark has no other way to the JVM.
    delta = session._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr] # noqa: SLF001
    log = delta.forTable(session._jsparkSession, table_url(ledger, table))  # noqa: SLF001
    if "deletionVectors" in log.unsafeVolatileSnapshot().protocol().json():
        raise _foreign(table_url(ledger, table), "deletion vectors")
    root = session._jvm.org.apache.hadoop.fs.Path(table_url(ledger, table))  # type: ignore[union-attr] # noqa: SLF001
    system = root.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001
    inside = f"{system.makeQualified(root).toString()}/"
    outside = next((path for path in rows.inputFiles() if not path.startswith(inside)), None)
    if outside is not None:
        raise _foreign(outside, "data that lies elsewhere")


def _foreign(where: str, found: str) -> WinnowError:
    return WinnowError(
        "the ledger has something that no run writes there",
        expected="a Delta table with regular files, all in its directory",
        found=found,
        where=where,
        hint="Find out who made it. --ledger names another place.",
    )
