"""Compare the replicas of partitions.

Each log is read once, and the work is spread over all cores by bytes. Digests of its records are
compared with those of the other replicas, by partition and bucket of keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark import SparkContext

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.lookup import Segments
from winnow.logdir.names import PARTITION_METADATA
from winnow.logdir.survey import LogDir, topics_of
from winnow.logdir.topic_globs import check_globs, is_wanted
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread_grouped
from winnow.state import TopicPartition
from winnow.storage.places import Places
from winnow.verbs.compare.jobs import Work, read_and_judge
from winnow.verbs.compare.judge import MOST_REPLICAS, BucketVerdict, Suspect
from winnow.verbs.compare.replicas import Bounds, ReplicaLog, bounds_of, home_of, look
from winnow.verbs.compare.values import CompareResult, Comparison, Difference, DifferenceKind, Place
from winnow.wire.plain import Record
from winnow.words import counted

_REPLICAS_PER_TASK = 64
_NAMED = 8
"""Number of partitions that a note names."""


def compare(
    sc: SparkContext, log_dirs: Sequence[LogDir], *, topics: Sequence[str], progress: Progress
) -> CompareResult:
    """Compare every partition that two or more of the log directories have. Hold their locks.

    Raises UsageError for log directories that can't be compared at all.
    """
    if len(log_dirs) < 2:
        raise UsageError(
            "there is nothing to compare", expected="two or more log directories", found="one"
        )
    if len(log_dirs) > MOST_REPLICAS:
        raise UsageError(
            "too many log directories to compare",
            expected=f"at most {MOST_REPLICAS}",
            found=str(len(log_dirs)),
        )
    broken = [log_dir.error for log_dir in log_dirs if log_dir.error is not None]
    log_dirs = [log_dir for log_dir in log_dirs if log_dir.error is None]
    if broken and len(log_dirs) < 2:
        raise broken[0]
    check_globs(topics, topics_of(log_dirs), option="--topics")
    homes: dict[TopicPartition, list[ReplicaLog]] = defaultdict(list)
    for log_dir in log_dirs:
        for topic_partition in log_dir.partitions:
            if is_wanted(topic_partition.topic, topics):
                homes[topic_partition].append(home_of(log_dir, topic_partition))
    several = [homes[key] for key in sorted(homes) if len(homes[key]) > 1]
    looked = spread_grouped(
        sc,
        partial(look, Places()),
        several,
        per_task=_REPLICAS_PER_TASK,
        name=f"looking at {counted(sum(map(len, several)), 'replica')}",
        progress=progress,
    )
    begun = list(map(_begun, several, looked))
    works = {number: one for number, one in enumerate(begun) if isinstance(one, Work)}
    verdicts = read_and_judge(sc, works, progress)
    comparisons = tuple(
        _judged(one, verdicts[number]) if isinstance(one, Work) else one
        for number, one in enumerate(begun)
    )
    return CompareResult(
        comparisons=comparisons,
        not_compared=tuple(map(str, broken)),
        notes=tuple(_notes(log_dirs, homes)),
    )


def _notes(
    log_dirs: Sequence[LogDir], homes: Mapping[TopicPartition, Sequence[ReplicaLog]]
) -> Iterator[str]:
    for log_dir in log_dirs:
        yield from (
            f"{log_dir.path}/{skipped.name} is not compared: {skipped.why}"
            for skipped in log_dir.skipped
        )
        alone = sorted(
            key
            for key, found in homes.items()
            if [h.replica.log_dir for h in found] == [log_dir.path]
        )
        if alone:
            names = ", ".join(map(str, alone[:_NAMED]))
            others = " and others" if len(alone) > _NAMED else ""
            yield (
                f"{counted(len(alone), 'partition')} not compared, because only {log_dir.path} has "
                f"{'it' if len(alone) == 1 else 'them'}: {names}{others}"
            )


def _begun(
    homes: Sequence[ReplicaLog], looked: Sequence[ReplicaLog | Failure]
) -> Comparison | Work:
    """Return what has to be read, or a result where nothing has to be read."""
    pairs = list(zip(homes, looked, strict=True))
    sound = tuple(found for found in looked if isinstance(found, ReplicaLog))
    at = homes[0].topic_partition
    comparison = Comparison(
        topic=at.topic,
        partition=at.partition,
        replicas=tuple(
            (home if isinstance(found, Failure) else found).replica for home, found in pairs
        ),
    )
    for home, found in pairs:
        if isinstance(found, Failure):
            return _unreadable(comparison, home, found)
    named = [found for found in sound if found.topic_id is not None]
    different = next((found for found in named if found.topic_id != named[0].topic_id), None)
    if different is not None:
        both = (named[0], different)
        return _with(
            comparison,
            DifferenceKind.TOPIC,
            f"topic ids {named[0].topic_id} and {different.topic_id}",
            *(Place(one.replica.log_dir, f"{at}/{PARTITION_METADATA}", None) for one in both),
        )
    bounds = bounds_of(comparison.replicas)
    if bounds.start >= bounds.end:
        return replace(comparison, why_not=_why_nothing(comparison, bounds))
    comparison = replace(
        comparison, start=bounds.start, end=bounds.end, every_record_from=bounds.every_record_from
    )
    return Work(comparison, sound, bounds)


def _unreadable(comparison: Comparison, home: ReplicaLog, why: Failure) -> Comparison:
    place = Place(home.replica.log_dir, str(home.topic_partition), None)
    return _with(comparison, DifferenceKind.UNREADABLE, why.message, place)


def _with(comparison: Comparison, kind: DifferenceKind, message: str, *places: Place) -> Comparison:
    difference = Difference(kind=kind, offset=None, message=message, places=places)
    return replace(comparison, differences=1, first=difference)


def _why_nothing(comparison: Comparison, bounds: Bounds) -> str:
    behind = min(comparison.replicas, key=lambda replica: replica.high_watermark)
    if all(one.high_watermark <= (one.log_start or 0) for one in comparison.replicas):
        return "no replica has a committed record"
    if behind.high_watermark <= bounds.start:
        return (
            f"{behind.log_dir} has no committed records from offset {bounds.start} on (its high "
            f"watermark is {behind.high_watermark})"
        )
    return f"a transaction is open at offset {bounds.end}, where the logs begin"


def _judged(work: Work, verdict: BucketVerdict) -> Comparison:
    comparison = replace(work.comparison, records=verdict.records)
    if verdict.unreadable is not None:
        replica, why = verdict.unreadable
        return _unreadable(comparison, work.replicas[replica], why)
    return replace(
        comparison,
        differences=verdict.differences,
        first=None if verdict.first is None else _tell(verdict.first, work.replicas),
        undecided=verdict.undecided,
    )


def _tell(suspect: Suspect, replicas: Sequence[ReplicaLog]) -> Difference:
    """Look the record up again in both replicas and describe the difference.

    Keys and values are not shown: only which of them differ, and their lengths.
    """
    has, other = replicas[suspect.has], replicas[suspect.other]
    (here, one), (there, two) = (_see(home, suspect.offset) for home in (has, other))
    kind = DifferenceKind.CONTENT
    if one is not None and two is not None:
        message = _what_differs(one, two)
    elif suspect.missing:
        kind = DifferenceKind.MISSING
        what = "a tombstone" if one and one.value is None else "a record"
        message = (
            f"{has.replica.log_dir} has {what} at offset {suspect.offset} that "
            f"{other.replica.log_dir} lacks; the byte shown there is that of the next batch"
        )
    else:
        message = f"the records at offset {suspect.offset} differ"
    return Difference(kind=kind, offset=suspect.offset, message=message, places=(here, there))


def _see(home: ReplicaLog, offset: int) -> tuple[Place, Record | None]:
    """Return the place of a record, and the record. None if there is none, or its batch is too
    large to show.
    """
    segments = Segments(Places(), home.directory)
    try:
        found = segments.find_offset(offset)
    except CorruptLogError:  # too large to show
        found = None
    if found is None:
        last = len(segments.bases) - 1
        path, position, record = segments.path(last), segments.log(last).size, None
    else:
        path, position, record = found.path, found.position, found.record
    place = Place(home.replica.log_dir, path.removeprefix(f"{home.replica.log_dir}/"), position)
    return place, record if record is not None and record.offset == offset else None


def _what_differs(one: Record, two: Record) -> str:
    differences = [
        f"{name} ({_size(mine)} and {_size(others)})"
        for name, mine, others in (("key", one.key, two.key), ("value", one.value, two.value))
        if mine != others
    ]
    if one.timestamp != two.timestamp:
        differences.append(f"timestamp ({one.timestamp} and {two.timestamp})")
    if one.headers != two.headers:
        differences.append("headers")
    return (
        f"the records at offset {one.offset} differ in "
        f"{', '.join(differences) or 'bytes that could not be read again'}"
    )


def _size(text: bytes | None) -> str:
    return "null" if text is None else f"{len(text)} bytes"
