"""Turn a run's result into rows of the ledger."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from winnow.cleaning.result import PartitionResult, RunResult
from winnow.clock import EPOCH
from winnow.ledger.append import Addition
from winnow.ledger.place import TABLE
from winnow.ledger.schema import LEDGER, PARTITION_COLUMNS, RUN_COLUMNS
from winnow.verbs.erase.values import EraseResult
from winnow.version import VERSION


def cleaning(
    result: RunResult,
    *,
    log_dirs: Sequence[str],
    started: int,
    ended: int,
    by: tuple[str, str] | None = None,
) -> Addition:
    """Return the rows of a finished run: one for each partition, or one for a run without any.

    Times are in ms since the epoch, by the machine's clock. `by`: user and host, by default those
    of this process.
    """
    found = of_run(result, log_dirs=log_dirs, started=started, ended=ended, by=by or who())
    found["clock"] = instant(result.now)
    run = {column.name: found[column.name] for column in RUN_COLUMNS}
    rows = [json.dumps(run | _of_partition(p)) for p in result.partitions or (None,)]
    return Addition(table=TABLE, schema=LEDGER, rows=rows, run_id=result.run_id)


def of_run(
    result: RunResult | EraseResult,
    *,
    log_dirs: Sequence[str],
    started: int,
    ended: int,
    by: tuple[str, str],
) -> dict[str, Any]:
    """Return what both tables have of a run."""
    return {
        "run_id": result.run_id,
        "winnow_version": VERSION,
        "user": by[0],
        "host": by[1],
        "started_at": instant(started),
        "ended_at": instant(ended),
        "log_dirs": list(log_dirs),
        "status": result.status,
        "exit_code": result.exit_code,
    }


def who() -> tuple[str, str]:
    try:
        return getpass.getuser(), socket.gethostname()
    except (OSError, KeyError):  # a container's user has no name
        return str(os.getuid()), socket.gethostname()


def _of_partition(partition: PartitionResult | None) -> dict[str, Any]:
    if partition is None:
        return {}
    row = {column.name: getattr(partition, column.name, None) for column in PARTITION_COLUMNS}
    oldest, removed = partition.oldest_dirty_timestamp, partition.records_removed
    reason = partition.reason
    if more := partition.deletes_more:
        reason += f"; options delete more than its own settings: {', '.join(more)}"
    return row | {
        "reason": reason,
        "oldest_dirty_at": None if oldest is None else instant(oldest),
        "records_removed": None if removed is None else asdict(removed),
        "segments": [
            asdict(one) | {"largest_timestamp": instant(one.largest_timestamp)}
            for one in partition.segments
        ],
        "outputs": [asdict(one) for one in partition.outputs],
    }


def instant(ms: int) -> str | None:
    """Return ISO-8601 in UTC; None for a time that no calendar has."""
    try:
        return (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return None
