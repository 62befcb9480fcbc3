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
from winnow.ledger.place import ERASURES, TABLE
from winnow.ledger.schema import ERASED, PARTITION_COLUMNS
from winnow.verbs.erase.key_hashes import KeyHashes
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure
from winnow.version import VERSION


def cleaning(result: RunResult, *, log_dirs: Sequence[str], started: int, ended: int) -> Addition:
    """Return the rows of a finished run: one for each partition, or one for a run without any.

    Times are in ms since the epoch, by the machine's clock.
    """
    run = _of_run(result, log_dirs, started, ended) | {"clock": instant(result.now)}
    rows = [json.dumps(run | _of_partition(p)) for p in result.partitions] or [json.dumps(run)]
    return Addition(table=TABLE, rows=rows, run_id=result.run_id)


def erasure(
    result: EraseResult, hashes: KeyHashes, *, log_dirs: Sequence[str], started: int, ended: int
) -> Addition:
    """Return the one row of a finished erasure. Times as for `cleaning`. Of each directory that was
    not searched it has an entry that is no partition.
    """
    row = _of_run(result, log_dirs, started, ended) | {
        "proven": result.proven,
        "keys": result.keys,
        "keys_found": result.keys_found,
        "key_hashes": hashes.each,
        "keys_hash": hashes.together,
        "partitions": [
            *map(_of_erased, result.partitions),
            # As an error, not in a new column: Delta would refuse it in older tables.
            *({"error": f"not searched: {directory}"} for directory in result.not_searched),
        ],
    }
    return Addition(table=ERASURES, rows=[json.dumps(row)], run_id=result.run_id)


def _of_run(
    result: RunResult | EraseResult, log_dirs: Sequence[str], started: int, ended: int
) -> dict[str, Any]:
    user, host = who()
    return {
        "run_id": result.run_id,
        "winnow_version": VERSION,
        "user": user,
        "host": host,
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


def _of_partition(partition: PartitionResult) -> dict[str, Any]:
    oldest, removed = partition.oldest_dirty_timestamp, partition.records_removed
    reason = partition.reason
    if more := partition.deletes_more:
        reason += f"; options delete more than its own settings: {', '.join(more)}"
    return {name: getattr(partition, name, None) for name in PARTITION_COLUMNS.names} | {
        "reason": reason,
        "oldest_dirty_at": None if oldest is None else instant(oldest),
        "records_removed": None if removed is None else asdict(removed),
        "segments": [
            asdict(one) | {"largest_timestamp": instant(one.largest_timestamp)}
            for one in partition.segments
        ],
        "outputs": [asdict(one) for one in partition.outputs],
    }


def _of_erased(p: PartitionErasure) -> dict[str, Any]:
    above, proof = p.above_high_watermark, p.proof
    return {name: getattr(p, name, None) for name in ERASED.names} | {
        "records_erased": (p.erased or Amount()).records,
        "left_active": None if p.active is None else p.active.records,
        "left_above_high_watermark": None if above is None else above.records,
        "proof_reached": None if proof is None else proof.reached,
        "proof_problems": None if proof is None else proof.problems,
        "error": p.error or p.why_left_alone,
    }


def instant(ms: int) -> str | None:
    """Return ISO-8601 in UTC; None for a time that no calendar has."""
    try:
        return (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return None
