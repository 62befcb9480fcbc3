"""The one JSON object of --json. Scripts depend on its keys: do not remove or rename any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from winnow.clean.result import PartitionResult, RunResult

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
and if a plan without an estimate compacts. `deletes_more`: options that let more be deleted than
the topic's own settings, as `KEY=VALUE instead of VALUE`.
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


def to_json(result: RunResult, more: Mapping[str, Any] | None = None) -> str:
    """Return the JSON object. `more` holds keys that only an option adds."""
    return _dump(
        {key: getattr(result, key) for key in RUN_KEYS}
        | {"partitions": [_partition(partition) for partition in result.partitions]}
        | dict(more or {})
    )


def failure_to_json(error: str, *, now: int | None) -> str:
    """Return the object of a run that ended without a result."""
    empty: dict[str, Any] = dict.fromkeys(RUN_KEYS)
    return _dump(empty | {"status": "failed", "now": now, "partitions": [], "error": error})


def _partition(partition: PartitionResult) -> dict[str, Any]:
    value = {key: getattr(partition, key) for key in PARTITION_KEYS}
    if partition.records_removed is not None:
        value["records_removed"] = asdict(partition.records_removed)
    return value | {"holders": [asdict(holder) for holder in partition.holders]}


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2)
