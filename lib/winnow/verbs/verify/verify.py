"""Sweep log directories: first every directory, then every log, spread by bytes over all cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

from pyspark import SparkContext

from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, VerificationError
from winnow.logdir.lookup import Segments
from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    MAX_LONG,
    RECOVERY_POINT_CHECKPOINT,
    TXNINDEX,
    segment_file,
)
from winnow.logdir.topic_globs import check_globs
from winnow.logdir.torn import torn, was_emptied
from winnow.policy.transaction_runs import fold
from winnow.policy.txn_entries import across
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread, spread_grouped
from winnow.start.nodes.assigned import Assigned
from winnow.start.values import BrokerStart
from winnow.storage.live.read_view import view_of
from winnow.storage.places import Places
from winnow.verbs.verify.copies import with_copies
from winnow.verbs.verify.directories import (
    DirectoryCheck,
    check_directory,
    check_log_dir,
    duplicates,
    reported,
)
from winnow.verbs.verify.findings import Checked, Finding, Scope
from winnow.verbs.verify.gaps import gaps_note
from winnow.verbs.verify.gone import gone_directories
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.logs import LogCheck, LogFile
from winnow.verbs.verify.metadata_log import is_metadata_log, metadata_findings
from winnow.verbs.verify.segments import check_segment, txn_index_finding
from winnow.verbs.verify.sources import choice_of, log_dirs_of, unused_metadata_logs
from winnow.wire.batch import CONTROL, TRANSACTIONAL
from winnow.words import counted

_DIRECTORIES_PER_TASK = 256
_LEAST_BYTES = 2**16
"""Weight of a segment, even if it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What was checked, and all findings, sorted by log directory, partition and offset."""

    checked: Checked
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = field(default=())
    log_dirs: int = 1
    """How many were checked."""
    starts: tuple[BrokerStart, ...] = ()
    """What happens if the brokers start now. Empty: unknown."""

    @property
    def harmful_starts(self) -> tuple[BrokerStart, ...]:
        return tuple(start for start in self.starts if start.is_harmful)

    @property
    def status(self) -> str:
        """`sound`, `recoverable` if a starting broker repairs all that is wrong, or `damaged`, also
        if only a start of the broker would do harm.
        """
        if self.harmful_starts:
            return "damaged"
        if not self.findings:
            return "sound"
        return "damaged" if any(finding.is_damage for finding in self.findings) else "recoverable"

    @property
    def exit_code(self) -> int:
        return VerificationError.exit_code if self.findings or self.harmful_starts else 0


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
    every = frozenset().union(*(log_dir.topics for log_dir in checked))
    check_globs(topics, every, option="--topics")
    looked = spread(
        sc,
        partial(check_directory, Places()),
        places,
        per_task=_DIRECTORIES_PER_TASK,
        name=f"looking at {len(places)} partitions",
        progress=progress,
    )
    directories = [
        DirectoryCheck(findings=(place.finding(Kind.UNREADABLE, "", found.message),))
        if isinstance(found, Failure)
        else found
        for place, found in zip(places, looked, strict=True)
    ]
    read = spread_grouped(
        sc,
        partial(check_segment, Places(), max_decompressed_bytes=max_decompressed_bytes),
        [directory.logs for directory in directories],
        weight=lambda log: log.size,
        each=_LEAST_BYTES,
        name=f"reading {counted(sum(len(each.logs) for each in directories), 'log')}",
        progress=progress,
    )
    assigned = Assigned(Places(), partial(log_dirs_of, Places(), log_dirs))
    findings = [*duplicates(Places(), checked, assigned)]
    own = log_dirs_of(Places(), log_dirs)
    choice = choice_of(Places(), own)
    outside, unused = unused_metadata_logs(choice.unused)
    clusters = {d.path: d.meta.cluster_id for d in own}
    findings += gone_directories(
        Places(),
        dict(zip(log_dirs, checked, strict=True)),
        own,
        choice.metadata,
        clusters.get(choice.log_dir or ""),
        topics=topics,
    )
    total, copies = Checked(partitions=len(places)), []
    ends = list[tuple[Scope, list[tuple[int, int]]]]()
    of_places = zip(directories, read, strict=True)
    for path, log_dir in zip(log_dirs, checked, strict=True):
        findings += log_dir.findings
        behind = list[str]()
        findings += (finding for finding in outside if finding.log_dir == path)
        for place, (directory, found) in zip(log_dir.partitions, of_places, strict=False):
            logs = list(map(_log_check, directory.logs, found))
            whole = zip(directory.logs, logs, strict=True)
            offsets = (
                (log.base_offset, MAX_LONG if one.findings else one.next_offset)
                for log, one in whole
            )
            ends.append((place, sorted(offsets)))
            with reported(findings, place, "", Kind.UNREADABLE):
                here = [*all_findings(place, directory, logs)]
                findings += here
                if place.recovered and not is_metadata_log(place):
                    behind += {
                        str(place.name)
                        for finding in here
                        if finding.kind is Kind.CHECKPOINT and not was_emptied(place.directory)
                    }
            total = sum((check.checked for check in logs), total)
        copies += [torn(path, behind)] if behind else []
    gaps = gaps_note(ends, choice.metadata)
    notes = (*copies, *gaps, *(note for log_dir in checked for note in log_dir.notes), *unused)
    findings = [*with_copies(Places(), findings, log_dirs)]
    return SweepResult(checked=total, findings=tuple(findings), notes=notes, log_dirs=len(checked))


def _log_check(log: LogFile, found: LogCheck | Failure) -> LogCheck:
    if not isinstance(found, Failure):
        return found
    finding = log.scope.finding(Kind.UNREADABLE, log.name, found.message)
    return LogCheck(findings=(finding,), next_offset=log.base_offset)


_FLUSHED = (LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT)
_LIMITS = (*_FLUSHED, HIGH_WATERMARK_CHECKPOINT)
"""Checkpoints with an offset that the log must reach. The log start comes first: if it is too high,
a broker deletes the log.
"""


def all_findings(
    place: Scope, directory: DirectoryCheck, logs: Sequence[LogCheck]
) -> Iterator[Finding]:
    """Yield findings of the directory, of each of its logs (`logs`, in the order of
    `directory.logs`), and of them together.
    """
    of_files = [*directory.findings, *(found for log in logs for found in log.findings)]
    if is_metadata_log(place):
        yield from metadata_findings(Places(), place, of_files)
        return
    yield from of_files
    segments = [log for log in directory.logs if log.indexes is not None]
    checks = logs[: len(segments)]
    yield from _transactions(place, segments, checks)
    yield from _entries(place, segments, checks)
    if not checks:
        return
    wrote = any(check.producers for check in checks)
    # A running broker writes the first one when it rolls a segment or stops.
    expected = not place.recovered and view_of(place.directory) is None
    if expected and not directory.snapshots and wrote:
        message = "expected a producer snapshot, because producers have written here, found none"
        yield place.finding(Kind.MISSING, "", message)
    last, is_whole = checks[-1], checks[-1].sound_bytes == segments[-1].size
    if is_whole:
        yield from _end(place, last.next_offset, _LIMITS)
    elif place.recovered and last.sound_end is not None:
        # A recovery cuts the torn tail off, at the cost of the high watermark.
        yield from _end(place, last.sound_end, _FLUSHED)


def _end(place: Scope, end_offset: int, limits: Sequence[str]) -> Iterator[Finding]:
    """A recovery never makes a log longer, so this holds after an unclean shutdown, too."""
    for name in limits:
        offset = place.checkpoints.get(name, 0)
        if offset > end_offset:
            message = (
                f"expected the log to reach offset {offset}, which is in {name}, found that it "
                f"ends at {end_offset}"
            )
            yield place.finding(Kind.CHECKPOINT, "", message, offsets=(end_offset, offset - 1))
            return


def _transactions(
    place: Scope, segments: Sequence[LogFile], checks: Sequence[LogCheck]
) -> Iterator[Finding]:
    """Check transactions that span segments, as far as all earlier segments are known."""
    known = takewhile(lambda runs: runs is not None, (check.runs for check in checks))
    runs = [one for one in known if one is not None]
    name = ""

    def where(number: int) -> tuple[str, str]:
        nonlocal name
        name = segment_file(segments[number].base_offset, TXNINDEX)
        return "", ""

    try:
        fold(runs, high_watermark=0, log_start_offset=place.log_start_offset, where=where)
    except CorruptLogError as error:
        yield place.finding(Kind.TXN_INDEX, name, error)


def _entries(
    place: Scope, segments: Sequence[LogFile], checks: Sequence[LogCheck]
) -> Iterator[Finding]:
    """Check what transaction indexes say of earlier segments. Report each one's first fault."""
    known = takewhile(all, ((check.runs, check.promises) for check in checks))
    reported: set[int] = set()
    for number, fault in across(
        [(runs, promised) for runs, promised in known if runs is not None and promised is not None],
        partial(_batch_with, place),
    ):
        if number not in reported:
            reported.add(number)
            yield txn_index_finding(segments[number], fault)


def _batch_with(place: Scope, offset: int) -> tuple[int, int | None] | None:
    try:
        batch = Segments(Places(), place.directory).find_offset(offset)
    except FAILS_ONE_PARTITION:
        return None  # this is a finding of its own
    if batch is None:
        return None
    row = batch.piece.rows[batch.row]
    if row["base_offset"] > offset:
        return None  # a cleaning removed it
    data = (int(row["attributes"]) & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL
    return int(row["base_offset"]), int(row["producer_id"]) if data else None
