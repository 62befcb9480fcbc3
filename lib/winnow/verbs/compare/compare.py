"""Compare the replicas of partitions.

Each log is read once, and the work is spread over all cores by bytes. Digests of its records are
compared with those of the other replicas, by partition and bucket of keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.lookup import Segments
from winnow.logdir.survey import LogDir, topics_of
from winnow.logdir.topic_globs import check_globs, is_wanted
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread_grouped
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.places import Places
from winnow.verbs.compare.jobs import Work, read_and_judge
from winnow.verbs.compare.judge import MOST_REPLICAS, SAME, Suspect, Verdict
from winnow.verbs.compare.replicas import Bounds, Home, Looked, bounds_of, home_of, look
from winnow.verbs.compare.values import CompareResult, Comparison, Difference, Kind, Place
from winnow.wire.plain import Record
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

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
    broken = next((log_dir.error for log_dir in log_dirs if log_dir.error is not None), None)
    if broken is not None:
        raise broken
    check_globs(topics, topics_of(log_dirs), option="--topics")
    homes: dict[TopicPartition, list[Home]] = defaultdict(list)
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
    comparisons: list[Comparison] = []
    works: dict[int, Work] = {}
    for replicas, found in zip(several, looked, strict=True):
        outcome = _begun(replicas, found)
        if isinstance(outcome, Work):
            works[len(comparisons)] = outcome
        comparisons.append(outcome.comparison if isinstance(outcome, Work) else outcome)
    for number, comparison in _read(sc, works, progress).items():
        comparisons[number] = comparison
    return CompareResult(comparisons=tuple(comparisons), notes=tuple(_notes(log_dirs, homes)))


def _notes(
    log_dirs: Sequence[LogDir], homes: Mapping[TopicPartition, Sequence[Home]]
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


def _begun(homes: Sequence[Home], looked: Sequence[Looked | Failure]) -> Comparison | Work:
    """Return what has to be read, or a result where nothing has to be read."""
    comparison = Comparison(
        topic=homes[0].topic_partition.topic,
        partition=homes[0].topic_partition.partition,
        replicas=tuple(
            home.replica if isinstance(found, Failure) else found.home.replica
            for home, found in zip(homes, looked, strict=True)
        ),
    )
    for home, found in zip(homes, looked, strict=True):
        if isinstance(found, Failure):
            return _with(comparison, _unreadable(home, found))
    sound = tuple(found for found in looked if isinstance(found, Looked))
    named = [found for found in sound if found.topic_id is not None]
    different = next((found for found in named if found.topic_id != named[0].topic_id), None)
    if different is not None:
        return _with(comparison, _other_topic(named[0], different))
    bounds = bounds_of(comparison.replicas)
    if bounds.start >= bounds.end:
        return replace(comparison, why_not=_why_nothing(comparison, bounds))
    comparison = replace(
        comparison, start=bounds.start, end=bounds.end, every_record_from=bounds.every_record_from
    )
    return Work(comparison, sound, bounds)


def _other_topic(one: Looked, two: Looked) -> Difference:
    return Difference(
        kind=Kind.TOPIC,
        offset=None,
        message=f"topic ids {one.topic_id} and {two.topic_id}",
        places=tuple(
            Place(
                found.home.replica.log_dir, f"{found.home.topic_partition}/partition.metadata", None
            )
            for found in (one, two)
        ),
    )


def _unreadable(home: Home, why: Failure) -> Difference:
    place = Place(home.replica.log_dir, str(home.topic_partition), None)
    return Difference(kind=Kind.UNREADABLE, offset=None, message=why.message, places=(place,))


def _with(comparison: Comparison, difference: Difference) -> Comparison:
    return replace(comparison, differences=1, first=difference)


def _why_nothing(comparison: Comparison, bounds: Bounds) -> str:
    behind = min(comparison.replicas, key=lambda replica: replica.high_watermark)
    if behind.high_watermark <= bounds.start:
        return (
            f"{behind.log_dir} has no committed records from offset {bounds.start} on (its high "
            f"watermark is {behind.high_watermark})"
        )
    return f"a transaction is open at offset {bounds.end}, where the logs begin"


def _read(sc: SparkContext, works: Mapping[int, Work], progress: Progress) -> dict[int, Comparison]:
    records: dict[int, int] = defaultdict(int)
    verdicts: dict[int, Verdict] = defaultdict(lambda: SAME)
    failures: dict[tuple[int, int], Failure] = {}
    for number, outcome in read_and_judge(sc, works, progress):
        if isinstance(outcome, Verdict):
            verdicts[number] += outcome
        elif isinstance(outcome, int):
            records[number] += outcome
        else:
            replica, why = outcome
            failures.setdefault((number, replica), why)
    broken = {
        number: (replica, why) for (number, replica), why in sorted(failures.items(), reverse=True)
    }
    done = {}
    for number, work in works.items():
        comparison = replace(work.comparison, records=records[number])
        if number in broken:
            replica, why = broken[number]
            done[number] = _with(comparison, _unreadable(work.replicas[replica].home, why))
            continue
        verdict, homes = verdicts[number], [looked.home for looked in work.replicas]
        at = verdict.first
        done[number] = replace(
            comparison,
            differences=verdict.differences,
            first=None if at is None else tell(Places(), at, homes[at.has], homes[at.other]),
            undecided=verdict.undecided,
        )
    return done


def tell(storage: Storage, suspect: Suspect, has: Home, other: Home) -> Difference:
    """Look the record up again in both replicas and describe the difference.

    Keys and values are not shown: only which of them differ, and their lengths.
    """
    (here, one), (there, two) = (_see(storage, home, suspect.offset) for home in (has, other))
    both = one is not None and two is not None
    kind = Kind.MISSING if suspect.missing and not both else Kind.CONTENT
    if one is not None and two is not None:
        message = _what_differs(one, two)
    elif kind is Kind.MISSING:
        what = "a tombstone" if one and one.value is None else "a record"
        message = (
            f"{has.replica.log_dir} has {what} at offset {suspect.offset} that "
            f"{other.replica.log_dir} lacks; the byte shown there is that of the next batch"
        )
    else:
        message = f"the records at offset {suspect.offset} differ"
    return Difference(kind=kind, offset=suspect.offset, message=message, places=(here, there))


def _see(storage: Storage, home: Home, offset: int) -> tuple[Place, Record | None]:
    """Return the place of a record, and the record. None if there is none, or its batch is too
    large to show.
    """
    segments = Segments(storage, home.directory)
    try:
        found = segments.find_offset(offset)
    except CorruptLogError:  # too large to show
        found = None
    if found is None:
        last = len(segments.bases) - 1
        return _place(home, segments.path(last), segments.log_bytes(last)), None
    record = found.record if found.record is not None and found.record.offset == offset else None
    return _place(home, found.path, found.position), record


def _place(home: Home, path: str, position: int) -> Place:
    return Place(home.replica.log_dir, path.removeprefix(f"{home.replica.log_dir}/"), position)


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
