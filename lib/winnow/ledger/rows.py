"""Turn a run's result into rows of the ledger."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from winnow.clean.result import PartitionResult, RunResult
from winnow.clock import EPOCH
from winnow.ledger.schema import PARTITION_COLUMNS, RUN_COLUMNS
from winnow.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A finished run. Times are in ms since the epoch, by the machine's clock."""

    result: RunResult
    log_dirs: Sequence[str]
    started: int
    ended: int
    user: str
    host: str


def entry_of(result: RunResult, *, log_dirs: Sequence[str], started: int, ended: int) -> Entry:
    """Make an entry with this process's user and machine."""
    user, host = who()
    return Entry(
        result=result, log_dirs=log_dirs, started=started, ended=ended, user=user, host=host
    )


def who() -> tuple[str, str]:
    """Return this process's user and machine."""
    try:
        return getpass.getuser(), socket.gethostname()
    except (OSError, KeyError):  # a container's user has no name
        return str(os.getuid()), socket.gethostname()


def json_rows(entry: Entry) -> Iterator[str]:
    """Yield one JSON object per row, with the columns of `LEDGER` and no line break. A run without
    partitions has one row.
    """
    of_run = _of_run(entry)
    for partition in entry.result.partitions or (None,):
        yield json.dumps(of_run | _of_partition(partition))


def _of_run(entry: Entry) -> dict[str, Any]:
    result = entry.result
    row = {
        "run_id": result.run_id,
        "winnow_version": VERSION,
        "user": entry.user,
        "host": entry.host,
        "started_at": instant(entry.started),
        "ended_at": instant(entry.ended),
        "clock": instant(result.now),
        "log_dirs": list(entry.log_dirs),
        "status": result.status,
        "exit_code": result.exit_code,
    }
    return {column.name: row[column.name] for column in RUN_COLUMNS}


def _of_partition(partition: PartitionResult | None) -> dict[str, Any]:
    if partition is None:
        return {}
    row = {column.name: getattr(partition, column.name, None) for column in PARTITION_COLUMNS}
    oldest, removed = partition.oldest_dirty_timestamp, partition.records_removed
    return row | {
        "reason": _reason(partition),
        "oldest_dirty_at": None if oldest is None else instant(oldest),
        "records_removed": None if removed is None else asdict(removed),
        "segments": [
            asdict(one) | {"largest_timestamp": instant(one.largest_timestamp)}
            for one in partition.segments
        ],
        "outputs": [asdict(one) for one in partition.outputs],
    }


def _reason(partition: PartitionResult) -> str:
    """Return the reason, with the options that delete more than the topic's own settings."""
    more = partition.deletes_more
    if not more:
        return partition.reason
    return f"{partition.reason}; options delete more than its own settings: {', '.join(more)}"


def instant(ms: int) -> str | None:
    """Return ISO-8601 in UTC; None for a time that no calendar has."""
    try:
        return (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return None
