"""The verb `recover`. It holds the locks of the log directories. Needs Spark only after an unclean
shutdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from winnow.cli.call import Call
from winnow.cli.inputs import check_log_dirs, now_of, parse_settings
from winnow.cli.options import OTHER, SAFETY
from winnow.cli.out import Line, by_the_rules, picked, tell_notes, tell_page, version_keys
from winnow.cli.text.next_command import command, typed
from winnow.cli.text.start import harmful_starts, shown_reasons, start_section
from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.names import LOG, segment_file
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Settings
from winnow.recovery.runs.values import Action, PartitionRecovery, RecoverResult
from winnow.start.values import BrokerStart
from winnow.start.words import starts_to_json
from winnow.words import counted, moment, size

if TYPE_CHECKING:
    from winnow.recovery.logs.values import RecoveredDir, RecoveredLog, TruncateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverOptions:
    undo: str | None = OTHER.option(
        "Restore what this run of clean --keep-replaced replaced.", "RUN_ID"
    )
    purge: str | None = OTHER.option("Delete what this run kept, or what all kept.", "RUN_ID|all")
    dry_run: bool = SAFETY.switch("Show what would be done; change nothing.")
    truncate: bool = OTHER.switch(
        "After an unclean shutdown: cut the logs, rebuild indexes and snapshots, and write the "
        "marker. A broker then starts without recovery."
    )
    discard_cut: bool = OTHER.switch(
        "With --truncate: do not keep the bytes that are cut. Needs no free space."
    )
    lose_records: bool = OTHER.switch(
        "With --truncate: also cut logs where whole batches lie behind the damage, and finish "
        "swaps that lose batches. These go, too, as when a broker starts. And overwrite "
        "checkpoints that show that a log has lost its end."
    )


def run_recover(call: Call, asked: RecoverOptions) -> int:
    line = call.request
    if asked.truncate and (asked.undo is not None or asked.purge is not None):
        raise UsageError(
            "--truncate can't be combined with --undo or --purge",
            hint="Recover the directory first, then run again.",
        )
    for option, given in (
        ("--discard-cut", asked.discard_cut),
        ("--lose-records", asked.lose_records),
    ):
        if given and not asked.truncate:
            raise UsageError(f"{option} without --truncate", expected="both, or neither")
    check_log_dirs(line.log_dirs)
    settings, now = parse_settings(line), now_of(line)
    result = _recovered(call, asked, settings)
    of_broker = None
    if result.unclean:
        may_mark = not result.exit_code
        of_broker = _after_crash(call, asked, settings, now, may_mark=may_mark)
    starts = _starts(call, settings, now) if of_broker is None else of_broker.starts
    if of_broker is None or asked.undo is not None or asked.purge is not None:
        of_broker, result = None, replace(result, starts=starts)
    code = max(result.exit_code, 0 if of_broker is None else of_broker.exit_code)
    if asked.truncate and not asked.dry_run and not all(start.is_safe for start in starts):
        code = max(code, CorruptLogError.exit_code)
    call.answer(
        lambda: to_json(result, of_broker, starts, exit_code=code),
        page(result, truncate=asked.truncate),
    )
    if of_broker is not None and not line.json:
        tell_notes(of_broker.notes)
        next_command = typed(command(("recover", "--truncate"), line))
        tell_page(cut_lines(of_broker, next_command, changed_before=result.has_changed_files))
    return code


def _starts(call: Call, settings: Settings, now: int) -> tuple[BrokerStart, ...]:
    from winnow.verbs.starts import starts_here  # noqa: PLC0415 - it loads numpy

    wanted = partial(is_wanted, globs=call.request.topics)
    return starts_here(call.request.log_dirs, settings, now=now, wanted=wanted)


def _recovered(call: Call, asked: RecoverOptions, settings: Settings) -> RecoverResult:
    from winnow import api  # noqa: PLC0415 - it loads numpy

    with call.progress() as progress:

        def on_partition(done: int, total: int) -> None:
            if done:
                progress.advance(1)
            else:
                progress.stage(f"recovering {counted(total, 'partition')}", total_tasks=total)

        return api.recover(
            call.request.log_dirs,
            topics=call.request.topics,
            undo_run=asked.undo,
            purge_run=asked.purge,
            dry_run=asked.dry_run,
            lose_records=asked.lose_records,
            settings=settings,
            on_partition=on_partition,
        )


def _after_crash(
    call: Call, asked: RecoverOptions, settings: Settings, now: int, *, may_mark: bool
) -> TruncateResult:
    """Recover what a broker would recover, or plan it."""
    with call.spark() as spark, call.progress() as progress:
        from winnow.recovery.logs.run import recover_unclean  # noqa: PLC0415 - likewise
        from winnow.recovery.logs.values import TruncateRequest  # noqa: PLC0415 - it loads numba

        request = TruncateRequest(
            settings=settings,
            now=now,
            topics=tuple(call.request.topics),
            truncate=asked.truncate and not asked.dry_run,
            keep_cut=not asked.discard_cut,
            lose_records=asked.lose_records,
            may_mark=may_mark,
        )
        return recover_unclean(spark, call.request.log_dirs, request, progress=progress)


def page(result: RecoverResult, *, truncate: bool = False) -> Iterator[Line]:
    """Yield what was done or found, by partition. Partitions without news share a line. `truncate`:
    the broker is to be started then, so anything but a safe start is said.
    """
    would = "would be " if result.dry_run else ""
    yield from _by_name(
        ((f"{p.topic}-{p.partition}", _partition_lines(p, would)) for p in result.partitions),
        "no run was interrupted, and nothing is kept",
    )
    if not result.partitions:
        yield "No partition matches the command."
    if freed := sum(partition.bytes_freed for partition in result.partitions):
        yield f"{size(freed)} {would}freed"
    said = shown_reasons(result.starts)
    yield from (words for words in result.strangers if words not in said)
    yield from harmful_starts(result.starts, title="Do not start the broker now")
    if truncate:
        unknown = [start for start in result.starts if not start.is_safe and not start.is_harmful]
        yield from start_section(unknown)


def _by_name(told: Iterable[tuple[str, Iterable[str]]], otherwise: str) -> Iterator[str]:
    """Yield the name and the lines of each partition; last, how many have no lines."""
    quiet = 0
    for name, lines in told:
        shown = [f"      {line}" for line in lines]
        quiet += not shown
        yield from [name, *shown] if shown else []
    if quiet:
        yield f"{counted(quiet, 'partition')}: {otherwise}"


def _partition_lines(partition: PartitionRecovery, would: str) -> Iterator[str]:
    if Action.RECOVERED in partition.actions:
        yield f"left by a crash, {would}removed: {', '.join(partition.removed) or 'nothing'}"
        yield from (f"left by a crash, renamed: {old} -> {new}" for old, new in partition.renamed)
    if Action.UNDONE in partition.actions:
        back = (
            f"{counted(partition.segments_restored, 'segment')}, {size(partition.bytes_restored)}"
        )
        yield f"undone: {back} {would}put back"
        if partition.log_start_offset is not None:
            begins = "would begin" if would else "begins"
            yield (
                f"the log {begins} at offset {partition.log_start_offset} again, as before the run"
            )
    if Action.PURGED in partition.actions:
        yield f"purged: {size(partition.bytes_freed)} {would}freed"
    for kept in partition.kept:
        yield (
            f"kept by run {kept.run_id} of {moment(kept.kept_at_ms)}: "
            f"{counted(kept.segments, 'segment')}, {size(kept.bytes)}"
            + (f"; can't be undone: {kept.closed_by}" if kept.closed_by else "")
        )
    if partition.error is not None:
        yield f"error: {partition.error}"


def to_json(
    result: RecoverResult,
    of_broker: TruncateResult | None,
    starts: Sequence[BrokerStart],
    *,
    exit_code: int,
) -> dict[str, Any]:
    value: dict[str, Any] = {"status": "partial" if exit_code else "done"}
    value |= picked(result, "dry_run", "partitions", "strangers")
    if of_broker is not None:
        value["unclean"] = cuts_to_json(of_broker)
    return value | {"starts": starts_to_json(starts)}


def cuts_to_json(result: TruncateResult) -> list[dict[str, Any]]:
    """Return one object per log directory."""
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
    change = None if loaded is None or log.error else loaded.truncation
    return {
        "directory": log.name,
        "topic": log.topic_partition.topic,
        "partition": log.topic_partition.partition,
        "log_start_offset": None if loaded is None else loaded.log_start_offset,
        "log_end_offset": None if loaded is None else loaded.log_end_offset,
        "cuts": [
            {
                "base_offset": cut.base_offset,
                "position": cut.size,
                "bytes": cut.bytes,
                "offset": cut.next_offset,
                "why": cut.why,
            }
            for cut in log.cuts
        ],
        "removed_segments": [segment.base_offset for segment in log.removed],
        "cut_bytes": log.cut_bytes,
        "written_files": [*change.files] if change else [],
        "removed_files": [*change.orphans, *change.snapshots_beyond_end, *change.old_snapshots]
        if change
        else [],
        "kept_in": log.kept,
        "error": log.error,
    }


def cut_lines(result: TruncateResult, next_command: str, *, changed_before: bool) -> Iterator[Line]:
    """Yield what was or would be cut, by partition. `next_command` would do it. `changed_before`:
    the page has listed files that were removed or renamed.
    """
    for log_dir in result.log_dirs:
        yield from _of_dir(log_dir, result)
    if result.log_dirs and not result.truncated:
        logs = [log for log_dir in result.log_dirs for log in log_dir.logs if log.error is None]
        cut = sum(log.cut_bytes for log in logs)
        nothing = "Nothing else" if changed_before else "Nothing"
        yield (
            f"{nothing} was changed. This cuts {size(cut)} and keeps what it cuts: {next_command}"
        )
        if all(start.is_safe for start in result.starts):
            yield "Or start the broker, which cuts the same bytes."
    yield from start_section(result.starts)
    if result.log_dirs:
        yield by_the_rules(result.kafka)


def _of_dir(log_dir: RecoveredDir, result: TruncateResult) -> Iterator[str]:
    if log_dir.error is None:
        yield f"{log_dir.path}: the broker did not shut down cleanly."
    else:
        yield f"{log_dir.path}: nothing in it can be recovered: {log_dir.error}"
    would = "" if result.truncated else "would be "
    sound = [log.loaded for log in log_dir.logs if log.loaded and log.error is None]
    changed = sum(bool(log.truncation) and not log.truncation.cut_bytes for log in sound)
    yield from _by_name(
        ((log.name, _of_log(log, would)) for log in log_dir.logs),
        f"nothing to cut; indexes, snapshots or leader epochs of {changed} {would}written again",
    )
    failed = sum(log.error is not None for log in log_dir.logs)
    if log_dir.marked:
        yield (
            f"Recovered; {size(log_dir.cut_bytes)} cut. A broker starts without recovery. Its "
            "controller still treats the shutdown as unclean (broker epoch -1)."
        )
    elif log_dir.is_whole and result.truncated:
        yield (
            f"Recovered; {size(log_dir.cut_bytes)} cut. But no marker of a clean shutdown was "
            "written: that is done if all log directories are recovered, and a broker starts "
            "without harm. See below."
        )
    elif failed or log_dir.error is not None:
        why = f": {counted(failed, 'partition')} can't be recovered here" if failed else ""
        safe = all(start.is_safe for start in result.starts)
        then = " A broker recovers the directory when it starts." if safe else ""
        yield f"No marker of a clean shutdown{why}.{then}"
    elif log_dir.left_out:
        yield (
            "No marker of a clean shutdown: --topics leaves out "
            f"{counted(log_dir.left_out, 'partition')}."
        )


def _of_log(log: RecoveredLog, would: str) -> Iterator[str]:
    if log.error is not None:
        yield f"error: {log.error}"
    for cut in log.cuts:
        name = segment_file(cut.base_offset, LOG)
        yield (
            f"{would}cut at offset {cut.next_offset}: {size(cut.bytes)} from byte "
            f"{cut.size} of {name} on ({cut.why})"
        )
    if log.removed:
        gone = sum(segment.bytes for segment in log.removed)
        yield (
            f"{would}removed: {counted(len(log.removed), 'segment')} from offset "
            f"{log.removed[0].base_offset} on, {size(gone)}"
        )
    if log.kept is not None:
        yield f"kept in {log.kept}"
