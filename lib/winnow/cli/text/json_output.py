"""The one JSON object of --json. Scripts depend on its keys: do not remove or rename any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from winnow.cleaning.result import NONE, PartitionResult, RunResult, Setting
from winnow.cli.out import picked

PARTITION_KEYS = (
    "topic",
    "partition",
    "log_dir",
    "policy",
    "actions",
    "rule",
    "reason",
    "dirty_ratio",
    "dirty_ratio_after",
    "first_dirty_offset_before",
    "first_dirty_offset_after",
    "log_start_offset_before",
    "log_start_offset_after",
    "segments_before",
    "segments_after",
    "segments_unchanged",
    "segments_unread",
    "bytes_before",
    "bytes_after",
    "records_before",
    "records_after",
    "records_removed",
    "holders",
    "holders_total",
    "kept_bytes",
    "quarantined_bytes",
    "duration_ms",
    "deletes_more",
    "error",
)
"""`holders`: for a compacted partition of `__consumer_offsets`, `__transaction_state` or
`__share_group_state`, the five names with the most bytes (`Holder`; `_after` is null in a plan
without an estimate). Otherwise an empty list. `holders_total`: the number of names, null if
unknown. `records_removed`: by reason (`RecordsRemoved`). Null if not every batch header was read,
and if a plan without an estimate compacts. `segments_unchanged`: segments that compaction did
not write, because they lose nothing; null if nothing was compacted. `segments_unread`: those of
them that were not even read (docs/decisions/0054). `deletes_more`: options
that let more be deleted than the topic's own settings, as `KEY=VALUE instead of VALUE`.
"""
RUN_KEYS = (
    "run_id",
    "status",
    "now",
    "kafka_version",
    "kafka_version_source",
    "ledger",
    "peak_extra_bytes",
    "short_bytes",
    "partitions",
)
"""`peak_extra_bytes`: the most space that new files needed beside the logs at one time, before they
replaced anything. In a plan, an upper limit. `short_bytes`: how far retention falls short of
--free-at-least, null without that option. `ledger`: where the run was recorded, null if nowhere.
`kafka_version`: the versions whose rules were used, as `4.3` or `2.8 to 3.9`.
"""
MORE_KEYS = ("exit_code", "totals", "left_alone", "settings", "notes")


def to_json(result: RunResult) -> dict[str, Any]:
    return picked(result, *RUN_KEYS) | {
        "partitions": [_partition(partition) for partition in result.partitions],
        "exit_code": result.exit_code,
        "totals": totals(result),
        "left_alone": [
            picked(p, "code", "topic", "partition", "log_dir", "rule", "reason", "error")
            for p in result.partitions
            if p.code is not None
        ],
        "settings": _settings(result),
        "notes": result.notes,
    }


def failure_to_json(error: str, *, now: int | None, exit_code: int) -> dict[str, Any]:
    return _nothing() | {"status": "failed", "now": now, "error": error, "exit_code": exit_code}


def running_to_json(*, pid: int, started_at: int) -> dict[str, Any]:
    """Return the object of a run that has begun, in the file of --result. `started_at`: in ms since
    the epoch.
    """
    return _nothing() | {"status": "running", "pid": pid, "started_at": started_at}


def _nothing() -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys((*RUN_KEYS, *MORE_KEYS))
    return empty | {"partitions": [], "left_alone": [], "settings": [], "notes": []}


def totals(result: RunResult) -> dict[str, int | None]:
    """Return sums over all partitions. A sum with an unknown part is None."""
    parts = result.partitions
    read = [p for p in parts if p.bytes_before is not None]
    before = sum(p.bytes_before or 0 for p in read)
    after = summed(p.bytes_after for p in read)
    return {
        "partitions": len(parts),
        "with_work": sum(p.actions != (NONE,) for p in parts),
        "left_alone": sum(p.code is not None for p in parts),
        "bytes_before": before,
        "bytes_after": after,
        "bytes_freed": None if after is None else before - after,
    }


def summed(values: Iterable[int | None]) -> int | None:
    """Return the sum; None if a value is unknown."""
    known = [*values]
    return None if None in known else sum(value or 0 for value in known)


def _settings(result: RunResult) -> list[dict[str, Any]]:
    """Return the settings of a plan, once for all topics that have the same."""
    topics: dict[tuple[Setting, ...], list[str]] = {}
    for topic, settings in {p.topic: p.settings for p in result.partitions if p.settings}.items():
        topics.setdefault(settings, []).append(topic)
    return [
        {"topics": sorted(names), "settings": [asdict(one) for one in settings]}
        for settings, names in topics.items()
    ]


def _partition(partition: PartitionResult) -> dict[str, Any]:
    value = picked(partition, *PARTITION_KEYS)
    if partition.records_removed is not None:
        value["records_removed"] = asdict(partition.records_removed)
    return value | {"holders": [asdict(holder) for holder in partition.holders]}
