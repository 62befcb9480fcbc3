"""The verb `recover`. It holds the locks of the log directories. Needs Spark only after an unclean
shutdown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from winnow.cli.line.units import parse_now
from winnow.cli.options import CommandLine, check_log_dirs, parse_settings
from winnow.cli.out import Paper, complain, tell, tell_json
from winnow.cli.run import guarded
from winnow.cli.session import spark_context
from winnow.cli.text import truncate as truncate_text
from winnow.cli.text.progress import progress_on_stderr
from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.recovery.runs.values import Action, PartitionRecovery, RecoverResult
from winnow.words import counted, moment, size

if TYPE_CHECKING:
    from winnow.recovery.logs.values import TruncateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    undo: str | None = None
    purge: str | None = None
    dry_run: bool = False
    truncate: bool = False
    discard_cut: bool = False


def run_recover(line: CommandLine, asked: Recovery) -> int:

    def work() -> int:
        _check(asked)
        check_log_dirs(line.log_dirs)
        result = _recovered(line, asked)
        of_broker = None
        if result.unclean and asked.undo is None and asked.purge is None:
            of_broker = _after_crash(line, asked, result.unclean)
        if line.json:
            partitions = [asdict(partition) for partition in result.partitions]
            value = {"status": result.status, "dry_run": asked.dry_run, "partitions": partitions}
            if of_broker is not None:
                value["unclean"] = truncate_text.to_json(of_broker)
            tell_json(value)
        else:
            tell(lambda: Paper().lines(_lines(result)))
            if of_broker is not None:
                for note in of_broker.notes:
                    complain(f"note: {note}")
                tell(lambda: Paper().lines(truncate_text.lines(of_broker)))
        return max(result.exit_code, 0 if of_broker is None else of_broker.exit_code)

    return guarded(work, json=line.json, now=lambda: None)


def _check(asked: Recovery) -> None:
    if asked.truncate and (asked.undo is not None or asked.purge is not None):
        raise UsageError(
            "--truncate can't be combined with --undo or --purge",
            hint="Recover the directory first, then run again.",
        )
    if asked.discard_cut and not asked.truncate:
        raise UsageError("--discard-cut without --truncate", expected="both, or neither")


def _recovered(line: CommandLine, asked: Recovery) -> RecoverResult:
    from winnow.recovery.runs.run import recover_log_dirs  # noqa: PLC0415 - it loads numpy

    with progress_on_stderr(quiet=line.quiet) as progress:

        def on_partition(done: int, total: int) -> None:
            if done:
                progress.advance(1)
            else:
                progress.stage(f"recovering {counted(total, 'partition')}", total_tasks=total)

        return recover_log_dirs(
            line.log_dirs,
            topics=line.topics,
            undo_run=asked.undo,
            purge_run=asked.purge,
            dry_run=asked.dry_run,
            on_partition=on_partition,
        )


def _after_crash(line: CommandLine, asked: Recovery, log_dirs: tuple[str, ...]) -> TruncateResult:
    """Recover what a broker would recover, or plan it."""
    settings = parse_settings(line)
    now = now_ms() if line.now is None else parse_now(line.now)
    with spark_context(quiet=line.quiet) as spark, progress_on_stderr(quiet=line.quiet) as progress:
        from winnow.recovery.logs.run import recover_unclean  # noqa: PLC0415 - likewise
        from winnow.recovery.logs.values import TruncateRequest  # noqa: PLC0415 - it loads numba

        request = TruncateRequest(
            settings=settings,
            now=now,
            topics=tuple(line.topics),
            truncate=asked.truncate and not asked.dry_run,
            keep_cut=not asked.discard_cut,
        )
        return recover_unclean(spark, log_dirs, request, progress=progress)


def _lines(result: RecoverResult) -> Iterator[str]:
    """Yield what was done or found, by partition. Partitions without news share the last line."""
    quiet = 0
    would = "would be " if result.dry_run else ""
    for partition in result.partitions:
        lines = list(_partition_lines(partition, would))
        quiet += not lines
        if lines:
            yield f"{partition.topic}-{partition.partition}"
            yield from (f"      {line}" for line in lines)
    if quiet:
        yield f"{counted(quiet, 'partition')}: nothing to do, and nothing is kept"
    if not result.partitions:
        yield "No partition matches the command."
    freed = sum(partition.bytes_freed for partition in result.partitions)
    if freed:
        yield f"{size(freed)} {would}freed"


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
