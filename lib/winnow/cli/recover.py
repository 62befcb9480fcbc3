"""The verb `recover`. Needs no Spark, and holds the locks of the log directories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from winnow.cli.options import CommandLine, check_log_dirs
from winnow.cli.out import Paper, tell, tell_json
from winnow.cli.run import guarded
from winnow.cli.text.progress import progress_on_stderr
from winnow.verbs.recover.values import Action, PartitionRecovery, RecoverResult
from winnow.words import counted, moment, size


def run_recover(request: CommandLine, *, undo: str | None, purge: str | None, dry_run: bool) -> int:
    """Return the exit code."""

    def work() -> int:
        from winnow.verbs.recover.run import recover_log_dirs  # noqa: PLC0415 - it loads numpy

        check_log_dirs(request.log_dirs)
        with progress_on_stderr(quiet=request.quiet) as progress:

            def on_partition(done: int, total: int) -> None:
                if done:
                    progress.advance(1)
                else:
                    progress.stage(f"recovering {counted(total, 'partition')}", total_tasks=total)

            result = recover_log_dirs(
                request.log_dirs,
                topics=request.topics,
                undo_run=undo,
                purge_run=purge,
                dry_run=dry_run,
                on_partition=on_partition,
            )
        if request.json:
            partitions = [asdict(partition) for partition in result.partitions]
            tell_json({"status": result.status, "dry_run": dry_run, "partitions": partitions})
        else:
            tell(lambda: Paper().lines(_lines(result)))
        return result.exit_code

    return guarded(work, json=request.json, now=lambda: None)


def _lines(result: RecoverResult) -> Iterator[str]:
    """Yield what was done or found, by partition. Partitions without news share the last line."""
    quiet = 0
    would = "would be " if result.dry_run else ""
    for partition in result.partitions:
        told = list(_told(partition, would))
        quiet += not told
        if told:
            yield f"{partition.topic}-{partition.partition}"
            yield from (f"      {line}" for line in told)
    if quiet:
        yield f"{counted(quiet, 'partition')}: nothing to do, and nothing is kept"
    if not result.partitions:
        yield "No partition matches the command."
    freed = sum(partition.bytes_freed for partition in result.partitions)
    if freed:
        yield f"{size(freed)} {would}freed"


def _told(partition: PartitionRecovery, would: str) -> Iterator[str]:
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
            f"{counted(kept.segments, 'segment')}, "
            f"{size(kept.bytes)}"
            + (f"; can't be undone: {kept.closed_by}" if kept.closed_by else "")
        )
    if partition.error is not None:
        yield f"error: {partition.error}"
