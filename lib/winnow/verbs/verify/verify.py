"""Sweep whole log directories: first every directory, then every log, spread by bytes over all
cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from winnow.errors import FAILS_ONE_PARTITION, VerificationError, failure_of
from winnow.logdir.topic_globs import check_globs
from winnow.runtime.meter import metered
from winnow.runtime.packing import packed, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.ticks import TickSheet, tick
from winnow.storage.places import Places
from winnow.verbs.verify.directories import DirectoryCheck, PartitionPlace, check_directory
from winnow.verbs.verify.findings import Checked, Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.log_dirs import LogDirCheck, check_log_dir
from winnow.verbs.verify.partitions import all_findings
from winnow.verbs.verify.segments import SegmentCheck, SegmentFiles, check_segment
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_DIRECTORIES_PER_TASK = 256
_BYTES_PER_TASK = 2**30
_LEAST_BYTES = 2**16
"""Weight of a segment, even if it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What was checked, and all findings, sorted by log directory, partition and offset."""

    checked: Checked
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = field(default=())
    """What was not checked."""

    @property
    def status(self) -> str:
        """Return `sound`, `recoverable` if a starting broker repairs everything that is wrong, or
        `damaged`.
        """
        if not self.findings:
            return "sound"
        return "damaged" if any(finding.is_damage for finding in self.findings) else "recoverable"

    @property
    def exit_code(self) -> int:
        return VerificationError.exit_code if self.findings else 0


def sweep(
    sc: SparkContext,
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str],
    max_decompressed_bytes: int,
    progress: Progress,
) -> SweepResult:
    """Sweep log directories. `log_dirs` come from `find_log_dirs`; the caller holds their locks."""
    checked = [check_log_dir(Places(), path, topics=topics) for path in log_dirs]
    places = [place for log_dir in checked for place in log_dir.partitions]
    check_globs(topics, {place.scope.topic or "" for place in places}, option="--topics")
    directories = _directories(sc, places, progress)
    logs = _logs(sc, directories, max_decompressed_bytes, progress)
    findings: list[Finding] = []
    total = Checked(partitions=len(places))
    number = 0
    for log_dir in checked:
        findings += log_dir.findings
        for place in log_dir.partitions:
            directory = directories[number]
            found = [logs[number, at] for at in range(len(directory.logs))]
            findings += _findings(log_dir, place, directory, found)
            total = sum((check.checked for check in found), total)
            number += 1
    notes = tuple(note for log_dir in checked for note in log_dir.notes)
    return SweepResult(checked=total, findings=tuple(findings), notes=notes)


def _directories(
    sc: SparkContext, places: Sequence[PartitionPlace], progress: Progress
) -> list[DirectoryCheck]:
    if not places:
        return []
    tasks = task_count(
        len(places),
        per_task=_DIRECTORIES_PER_TASK,
        items=len(places),
        parallelism=sc.defaultParallelism,
    )
    with watched(sc, progress, f"looking at {len(places)} partitions", tasks=tasks):
        return (
            sc.parallelize(places, tasks).mapPartitions(metered(partial(map, _directory))).collect()
        )


def _directory(place: PartitionPlace) -> DirectoryCheck:
    try:
        return check_directory(Places(), place)
    except FAILS_ONE_PARTITION as error:
        return DirectoryCheck(
            findings=(_unchecked(place.scope, "", error),), logs=(), segments=0, snapshots=False
        )


def _segment(files: SegmentFiles, max_decompressed_bytes: int) -> SegmentCheck:
    try:
        return check_segment(Places(), files, max_decompressed_bytes=max_decompressed_bytes)
    except FAILS_ONE_PARTITION as error:
        return SegmentCheck(
            findings=(_unchecked(files.log.scope, files.log.name, error),),
            checked=Checked(),
            next_offset=files.log.base_offset,
            complete=False,
            producers=False,
            runs=None,
            promises=None,
        )


def _findings(
    log_dir: LogDirCheck,
    place: PartitionPlace,
    directory: DirectoryCheck,
    logs: Sequence[SegmentCheck],
) -> list[Finding]:
    try:
        return list(all_findings(log_dir, place, directory, logs))
    except FAILS_ONE_PARTITION as error:
        of_logs = [finding for log in logs for finding in log.findings]
        return [*directory.findings, *of_logs, _unchecked(place.scope, "", error)]


def _unchecked(scope: Scope, name: str, error: Exception) -> Finding:
    return scope.finding(Kind.UNREADABLE, name, failure_of(error))


def _logs(
    sc: SparkContext,
    directories: Sequence[DirectoryCheck],
    max_decompressed_bytes: int,
    progress: Progress,
) -> Mapping[tuple[int, int], SegmentCheck]:
    """Check all logs. Results are keyed by number of the directory and number of the log in it."""
    items = [
        ((number, at), files)
        for number, directory in enumerate(directories)
        for at, files in enumerate(directory.logs)
    ]
    if not items:
        return {}
    weights = [files.log.size + _LEAST_BYTES for _, files in items]
    tasks = task_count(
        sum(weights), per_task=_BYTES_PER_TASK, items=len(items), parallelism=sc.defaultParallelism
    )
    of_tasks = packed([(piece, *item) for piece, item in enumerate(items)], weights, tasks=tasks)
    with TickSheet([files.log.size for _, files in items]) as sheet:
        ticks = sheet.path

        def check(
            assigned: Iterable[list[tuple[int, tuple[int, int], SegmentFiles]]],
        ) -> Iterator[tuple[tuple[int, int], SegmentCheck]]:
            for piece, key, files in (one for task in assigned for one in task):
                yield key, _segment(files, max_decompressed_bytes)
                tick(ticks, piece)

        with watched(
            sc, progress, f"reading {counted(len(items), 'log')}", tasks=tasks, ticks=sheet
        ):
            return dict(sc.parallelize(of_tasks, tasks).mapPartitions(metered(check)).collect())
