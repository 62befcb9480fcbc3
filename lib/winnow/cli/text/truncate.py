"""What recovery after an unclean shutdown cuts, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from winnow.cli.text.versions import by_the_rules, version_keys
from winnow.logdir.names import LOG, segment_file
from winnow.recovery.logs.values import RecoveredDir, RecoveredLog, TruncateResult
from winnow.words import counted, size


def to_json(result: TruncateResult) -> list[dict[str, Any]]:
    """Return one object per log directory. Scripts depend on its keys: do not rename any."""
    return [
        {
            "log_dir": log_dir.path,
            "run_id": result.run_id,
            **version_keys(result.kafka),
            "truncated": result.truncated,
            "marker_written": log_dir.marked,
            "left_out": log_dir.left_out,
            "error": log_dir.error,
            "partitions": [_log_to_json(log) for log in log_dir.logs],
        }
        for log_dir in result.log_dirs
    ]


def _log_to_json(log: RecoveredLog) -> dict[str, Any]:
    loaded = log.loaded
    value: dict[str, Any] = {
        "directory": log.name,
        "topic": log.topic_partition.topic,
        "partition": log.topic_partition.partition,
        "log_start_offset": None if loaded is None else loaded.log_start_offset,
        "log_end_offset": None if loaded is None else loaded.log_end_offset,
        "cuts": [],
        "removed_segments": [],
        "cut_bytes": 0,
        "written_files": [],
        "removed_files": [],
        "kept_in": log.kept,
        "error": log.error,
    }
    if loaded is not None:
        change = loaded.truncation
        value["cuts"] = [
            {
                "base_offset": cut.base_offset,
                "position": cut.size,
                "bytes": cut.before - cut.size,
                "offset": cut.next_offset,
                "why": cut.why,
            }
            for cut in change.cuts
        ]
        value["removed_segments"] = list(change.removed_segments)
        value["cut_bytes"] = change.cut_bytes
        value["written_files"] = [*change.files, *change.snapshots]
        value["removed_files"] = [
            *change.orphans,
            *change.snapshots_beyond_end,
            *change.old_snapshots,
        ]
    return value


def lines(result: TruncateResult) -> Iterator[str]:
    for log_dir in result.log_dirs:
        yield from _of_dir(log_dir, result)
    if result.log_dirs:
        yield by_the_rules(result.kafka)


def _of_dir(log_dir: RecoveredDir, result: TruncateResult) -> Iterator[str]:
    yield f"{log_dir.path}: the broker did not shut down cleanly."
    if log_dir.error is not None:
        yield f"      error: {log_dir.error}"
    quiet = 0
    for log in log_dir.logs:
        shown = list(_of_log(log, truncated=result.truncated))
        quiet += not shown
        if shown:
            yield log.name
            yield from (f"      {line}" for line in shown)
    would = "" if result.truncated else "would be "
    if quiet:
        changed = sum(
            log.loaded is not None and bool(log.loaded.truncation) for log in _whole(log_dir)
        )
        yield (
            f"{counted(quiet, 'partition')}: nothing to cut; indexes, snapshots or leader epochs "
            f"of {changed} {would}written again"
        )
    failed = sum(log.error is not None for log in log_dir.logs)
    cut = log_dir.cut_bytes
    if log_dir.marked:
        yield (
            f"Recovered; {size(cut)} cut. A broker starts without recovery. Its controller still "
            "treats the shutdown as unclean (broker epoch -1)."
        )
        return
    if failed or log_dir.error is not None:
        yield (
            f"No marker of a clean shutdown: {counted(failed, 'partition')} can't be recovered "
            "here. A broker recovers the directory when it starts."
        )
    elif log_dir.left_out:
        yield (
            "No marker of a clean shutdown: --topics leaves out "
            f"{counted(log_dir.left_out, 'partition')}."
        )
    if not result.truncated:
        yield (
            f"Nothing was changed. `recover {log_dir.path} --truncate` cuts {size(cut)} and keeps "
            "what it cuts. Or start the broker, which cuts the same bytes."
        )


def _whole(log_dir: RecoveredDir) -> Iterator[RecoveredLog]:
    """Yield the logs that lose nothing."""
    for log in log_dir.logs:
        if log.error is None and log.loaded is not None and not log.loaded.truncation.cut_bytes:
            yield log


def _of_log(log: RecoveredLog, *, truncated: bool) -> Iterator[str]:
    would = "" if truncated else "would be "
    if log.error is not None:
        yield f"error: {log.error}"
    if log.loaded is None:
        return
    change = log.loaded.truncation
    for cut in change.cuts:
        name = segment_file(cut.base_offset, LOG)
        yield (
            f"{would}cut at offset {cut.next_offset}: {size(cut.before - cut.size)} from byte "
            f"{cut.size} of {name} on ({cut.why})"
        )
    if change.removed_segments:
        yield (
            f"{would}removed: {counted(len(change.removed_segments), 'segment')} from offset "
            f"{change.removed_segments[0]} on, {size(change.removed_bytes)}"
        )
    if log.kept is not None:
        yield f"kept in {log.kept}"
