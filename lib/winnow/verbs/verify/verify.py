"""Sweep log directories: first every directory, then every log, spread by bytes over all cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from winnow.errors import FAILS_ONE_PARTITION, VerificationError, failure_of
from winnow.logdir.topic_globs import check_globs
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread
from winnow.storage.places import Places
from winnow.verbs.verify.directories import DirectoryCheck, PartitionPlace, check_directory
from winnow.verbs.verify.findings import Checked, Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.log_dirs import LogDirCheck, check_log_dir
from winnow.verbs.verify.partitions import all_findings
from winnow.verbs.verify.segments import SegmentCheck, check_segment
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

    @property
    def status(self) -> str:
        """`sound`, `recoverable` if a starting broker repairs all that is wrong, or `damaged`."""
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
    check_globs(
        topics, frozenset().union(*(log_dir.topics for log_dir in checked)), option="--topics"
    )
    directories = _directories(sc, places, progress)
    logs = iter(_logs(sc, directories, max_decompressed_bytes, progress))
    findings: list[Finding] = []
    total = Checked(partitions=len(places))
    of_places = iter(directories)
    for log_dir in checked:
        findings += log_dir.findings
        for place, directory in zip(log_dir.partitions, of_places, strict=False):
            found = list(islice(logs, len(directory.logs)))
            findings += _findings(log_dir, place, directory, found)
            total = sum((check.checked for check in found), total)
    notes = tuple(note for log_dir in checked for note in log_dir.notes)
    return SweepResult(checked=total, findings=tuple(findings), notes=notes)


def _directories(
    sc: SparkContext, places: Sequence[PartitionPlace], progress: Progress
) -> list[DirectoryCheck]:
    checked = spread(
        sc,
        partial(check_directory, Places()),
        places,
        per_task=_DIRECTORIES_PER_TASK,
        name=f"looking at {len(places)} partitions",
        progress=progress,
    )
    return [
        DirectoryCheck(findings=(_unchecked(place.scope, "", found.message),))
        if isinstance(found, Failure)
        else found
        for place, found in zip(places, checked, strict=True)
    ]


def _logs(
    sc: SparkContext,
    directories: Sequence[DirectoryCheck],
    max_decompressed_bytes: int,
    progress: Progress,
) -> list[SegmentCheck]:
    """Check all logs of all directories, in this order."""
    items = [files for directory in directories for files in directory.logs]
    checked = spread(
        sc,
        partial(check_segment, Places(), max_decompressed_bytes=max_decompressed_bytes),
        items,
        weights=[files.log.size for files in items],
        each=_LEAST_BYTES,
        per_task=_BYTES_PER_TASK,
        name=f"reading {counted(len(items), 'log')}",
        progress=progress,
    )
    return [
        SegmentCheck(
            findings=(_unchecked(files.log.scope, files.log.name, found.message),),
            checked=Checked(),
            next_offset=files.log.base_offset,
        )
        if isinstance(found, Failure)
        else found
        for files, found in zip(items, checked, strict=True)
    ]


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
        return [*directory.findings, *of_logs, _unchecked(place.scope, "", failure_of(error))]


def _unchecked(scope: Scope, name: str, why: str) -> Finding:
    return scope.finding(Kind.UNREADABLE, name, why)
