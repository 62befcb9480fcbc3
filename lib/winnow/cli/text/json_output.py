"""The one JSON object of --json. Scripts depend on its keys: do not remove or rename any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from winnow.cleaning.result import RunResult, Setting
from winnow.cli.out import fields_of, picked
from winnow.start.words import starts_to_json

RUN_KEYS = (
    *("run_id", "status", "now", "kafka_version", "kafka_version_source", "ledger"),
    *("peak_extra_bytes", "short_bytes"),
)
NOT_TOLD = (
    *("outputs", "max_compaction_lag_ms", "oldest_dirty_timestamp", "segments", "tombstones"),
    *("error_code", "left_alone", "settings"),
)
"""Fields of a partition that are not in the JSON object."""


def to_json(result: RunResult) -> dict[str, Any]:
    return {
        **picked(result, *RUN_KEYS),
        "partitions": [fields_of(partition, *NOT_TOLD) for partition in result.partitions],
        "exit_code": result.exit_code,
        "totals": totals(result),
        "left_alone": [
            picked(p, "code", "topic", "partition", "log_dir", "rule", "reason", "error")
            for p in result.partitions
            if p.code is not None
        ],
        "settings": _settings(result),
        "strangers": result.strangers,
        "notes": result.notes,
        "starts": starts_to_json(result.starts),
    }


def without_result(**known: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever JSON has
    """Return the object of a run that has begun or has failed. It has the keys of every run."""
    return {
        **dict.fromkeys(RUN_KEYS),
        "partitions": [],
        **dict.fromkeys(("exit_code", "totals")),
        **{name: [] for name in ("left_alone", "settings", "strangers", "notes", "starts")},
        **known,
    }


def failure_to_json(error: str, *, now: int | None, exit_code: int) -> dict[str, Any]:
    return without_result(status="failed", now=now, error=error, exit_code=exit_code)


def totals(result: RunResult) -> dict[str, int | None]:
    """Return sums over all partitions. A sum with an unknown part is None. What is kept for an undo
    is not freed.
    """
    parts = result.partitions
    read = [p for p in parts if p.bytes_before is not None]
    before = sum(p.bytes_before or 0 for p in read)
    after = summed(p.bytes_after for p in read)
    return {
        "partitions": len(parts),
        "with_work": sum(p.acts for p in parts),
        "left_alone": sum(p.code is not None for p in parts),
        "cleaner_off": result.cleaner_off,
        "bytes_before": before,
        "bytes_after": after,
        "bytes_freed": summed(p.freed_bytes for p in read),
        "bytes_kept": sum(p.kept_bytes or 0 for p in parts),
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
    return [{"topics": sorted(names), "settings": settings} for settings, names in topics.items()]
