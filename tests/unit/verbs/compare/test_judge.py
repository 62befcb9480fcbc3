"""Kafka's cleaner never raises an alarm, whenever it ran on which replica, and no loss is
missed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from winnow.verbs.compare.judge import SAME, BucketVerdict, Suspect, judge
from winnow.verbs.compare.replicas import Bounds, bounds_of
from winnow.verbs.compare.scan import ENTRY, Blob
from winnow.verbs.compare.values import Replica


@dataclass(frozen=True)
class Rec:
    offset: int
    key: int
    content: int
    """0: a tombstone."""


@dataclass
class Log:
    """One replica as its cleaner leaves it: its records and the checkpoint."""

    records: list[Rec]
    high_watermark: int
    cleaned_to: int | None = None
    log_start: int = 0
    horizons: set[int] = field(default_factory=set)
    """Offsets of tombstones that a cleaning has passed: the next one may drop them."""

    def clean(
        self, to: int, *, drop_tombstones: bool, whole: bool = True, up_to: int | None = None
    ) -> None:
        """Clean a round up to offset `to`. An interrupted one only cleans up to `up_to`, and leaves
        the checkpoint.
        """
        last = {r.key: r.offset for r in self.records if r.offset < to}
        done = to if up_to is None else up_to
        self.records = [
            r
            for r in self.records
            if r.offset >= done
            or (
                last[r.key] == r.offset
                and not (drop_tombstones and not r.content and r.offset in self.horizons)
            )
        ]
        if whole:
            self.horizons |= {r.offset for r in self.records if r.offset < to and not r.content}
            self.cleaned_to = to

    def replica(self) -> Replica:
        return Replica(
            log_dir="/d",
            node_id=1,
            log_start=self.log_start,
            high_watermark=self.high_watermark,
            last_stable_offset=None,
            cleaned_to=self.cleaned_to,
        )


def blob(number: int, records: Iterable[Rec]) -> Blob:
    rows = [((r.key, r.key), (r.content, 0), r.offset, r.content == 0) for r in records]
    return number, np.array(rows, ENTRY).tobytes()


def read_to(bounds: Bounds, number: int) -> int:
    return max(bounds.end, bounds.cleaned_to[number])


def judged(*logs: Log) -> tuple[BucketVerdict, Bounds]:
    """Judge with all records, which is at least what a scan sends."""
    bounds = bounds_of([log.replica() for log in logs])
    blobs = []
    for number, log in enumerate(logs):
        inside = [r for r in log.records if bounds.start <= r.offset < read_to(bounds, number)]
        half = len(inside) // 2
        blobs += [blob(number, inside[half:]), blob(number, inside[:half])]
    verdict = judge(blobs, bounds)
    assert verdict == judge_plain([log.records for log in logs], bounds)
    return verdict, bounds


def judge_plain(logs: Sequence[Sequence[Rec]], bounds: Bounds) -> BucketVerdict:
    """The twin: judge record by record, as the rules are written."""
    held = [
        {r.offset: r for r in log if bounds.start <= r.offset < read_to(bounds, number)}
        for number, log in enumerate(logs)
    ]
    everything = sorted({(o, r.key) for log in held for o, r in log.items() if o < bounds.end})
    newest = {key: offset for offset, key in everything}
    suspects, undecided = [], 0
    for offset, key in everything:
        having = [n for n, log in enumerate(held) if offset in log and log[offset].key == key]
        record = held[having[0]][offset]
        for number, log in enumerate(held):
            if number in having:
                if log[offset].content != record.content:
                    suspects.append(Suspect(offset, having[0], number, missing=False))
                continue
            is_newest = newest[key] == offset
            if not is_newest and offset < bounds.every_record_from:
                continue
            own = [o for o, r in log.items() if r.key == key]
            none_below = not any(o < bounds.end for o in own)
            if bounds.compacted and not is_newest and max(own, default=-1) > offset:
                continue
            if record.content == 0 and offset < bounds.cleaned_to[number] and none_below:
                continue
            if bounds.cleaned_to[number] > bounds.end and none_below:
                undecided += not own
                continue
            suspects.append(Suspect(offset, having[0], number, missing=True))
    return BucketVerdict(len(suspects), min(suspects, default=None), undecided)


def random_records(rng: random.Random, *, keys: int = 5) -> list[Rec]:
    offsets = sorted(rng.sample(range(60), rng.randrange(1, 30)))
    return [Rec(o, rng.randrange(keys), rng.choice((0, rng.randrange(1, 9)))) for o in offsets]


def cleaned_at_random(rng: random.Random, records: Sequence[Rec]) -> Log:
    """Clean below the high watermark, as Kafka does. A round may be interrupted after any of its
    segments.
    """
    end = rng.randrange(30, 61)
    log = Log(
        [r for r in records if r.offset < end], high_watermark=rng.randrange(end // 2, end + 1)
    )
    least = 0
    for _ in range(rng.randrange(4)):
        least = rng.randrange(least, log.high_watermark + 1)
        log.clean(least, drop_tombstones=rng.random() < 0.5)
    if log.cleaned_to is not None and rng.random() < 0.3:
        to = rng.randrange(least, log.high_watermark + 1)
        log.clean(to, drop_tombstones=False, whole=False, up_to=rng.randrange(to + 1))
    return log


@given(st.integers(0, 2**32))
def test_cleaning_at_different_times_raises_no_alarm(seed: int) -> None:
    rng = random.Random(seed)
    records = random_records(rng)
    logs = [cleaned_at_random(rng, records) for _ in range(rng.choice((2, 3)))]
    start = rng.choice((0, rng.randrange(40)))
    logs[0].log_start = start
    behind = min(log.high_watermark for log in logs)
    for log in logs:  # an interrupted round beyond another's high watermark looks like a loss
        log.high_watermark = max(log.high_watermark, log.cleaned_to or 0)
    verdict, _ = judged(*logs)
    if all((log.cleaned_to or 0) <= behind for log in logs) and max(
        len(log.records) for log in logs
    ):
        assert verdict.first is None or _beyond(logs, verdict.first)


def _beyond(logs: Sequence[Log], suspect: Suspect) -> bool:
    """Return whether a record beyond the bounds superseded it: only an interrupted round leaves
    that.
    """
    (key,) = {r.key for r in logs[suspect.has].records if r.offset == suspect.offset}
    end = min(log.high_watermark for log in logs)
    return any(r.key == key and r.offset >= end for r in logs[suspect.other].records)


@given(st.integers(0, 2**32))
@example(139688)  # two keys at one offset, each of another replica: the lowest numbers are reported
def test_kernel_agrees_with_twin_on_any_damage(seed: int) -> None:
    rng = random.Random(seed)
    records = random_records(rng, keys=3)
    logs = [cleaned_at_random(rng, records) for _ in range(rng.choice((2, 3)))]
    for log in logs:
        if log.records and rng.random() < 0.7:
            victim = rng.randrange(len(log.records))
            old = log.records.pop(victim)
            if rng.random() < 0.5:
                log.records.insert(
                    victim, Rec(old.offset, rng.choice((old.key, 7)), rng.randrange(9))
                )
    judged(*logs)


@given(st.integers(0, 2**32))
def test_lost_value_is_found(seed: int) -> None:
    """The last value of its key, on a replica with the same bounds as the others."""
    rng = random.Random(seed)
    records = random_records(rng)
    log, other = (Log(list(records), high_watermark=60) for _ in range(2))
    log.clean(rng.randrange(61), drop_tombstones=False)
    last = [
        r
        for r in log.records
        if r.content and all(s.key != r.key or s.offset <= r.offset for s in log.records)
    ]
    if last:
        victim = rng.choice(last)
        log.records.remove(victim)
        verdict, _ = judged(log, other)
        assert verdict == BucketVerdict(1, Suspect(victim.offset, 1, 0, missing=True), 0)


A, B = Rec(0, 1, 5), Rec(1, 1, 6)
GONE = Rec(2, 1, 0)


def pair(
    one: list[Rec], two: list[Rec], *, cleaned: tuple[int | None, int | None], ends: int = 10
) -> BucketVerdict:
    logs = [
        Log(r, high_watermark=ends, cleaned_to=c) for r, c in zip((one, two), cleaned, strict=True)
    ]
    return judged(*logs)[0]


def test_replica_that_was_never_cleaned_has_every_record() -> None:
    assert pair([A, B], [A, B], cleaned=(None, None)) == SAME
    assert pair([A, B], [B], cleaned=(None, None)).first == Suspect(0, 0, 1, missing=True)
    assert pair([A, B], [A, Rec(1, 1, 7)], cleaned=(None, None)).first == Suspect(
        1, 0, 1, missing=False
    )
    assert pair([A, B], [A, Rec(1, 2, 6)], cleaned=(None, None)).first == Suspect(
        1, 0, 1, missing=True
    )


def test_superseded_record_may_be_missing_but_not_the_last() -> None:
    assert pair([A, B], [B], cleaned=(None, 2)) == SAME
    assert pair([A, B], [A], cleaned=(2, 2)).first == Suspect(1, 0, 1, missing=True)
    assert pair([A, B], [], cleaned=(2, 2)).first == Suspect(1, 0, 1, missing=True)


def test_tombstone_may_be_missing_only_with_all_it_deleted() -> None:
    assert pair([A, GONE], [], cleaned=(None, 3)) == SAME
    assert pair([GONE], [], cleaned=(3, 3)) == SAME
    assert pair([A, GONE], [], cleaned=(None, 2)).first == Suspect(2, 0, 1, missing=True)
    back_to_life = pair([GONE], [A], cleaned=(3, 3))
    assert back_to_life.first == Suspect(2, 0, 1, missing=True)


def test_interrupted_round_may_have_cleaned_beyond_the_checkpoint() -> None:
    assert pair([A, B, Rec(2, 1, 7)], [Rec(2, 1, 7)], cleaned=(1, 1)) == SAME
    assert pair([A, B], [A], cleaned=(1, 1)).first == Suspect(1, 0, 1, missing=True)


def test_replica_may_be_cleaned_beyond_the_end_of_another() -> None:
    """What it lacks may have been superseded there. If no record of the key is left, this is
    undecidable.
    """
    ahead = [Log([Rec(9, 1, 5)], high_watermark=10, cleaned_to=10), Log([A], high_watermark=5)]
    assert judged(*ahead)[0] == SAME
    ahead[0].records = []
    assert judged(*ahead)[0] == BucketVerdict(0, None, 1)
    ahead[0].records = [Rec(0, 1, 6)]
    assert judged(*ahead)[0].first == Suspect(0, 0, 1, missing=False)


@pytest.mark.parametrize("start", [0, 1])
def test_only_the_range_common_to_all_is_compared(start: int) -> None:
    logs = [Log([A, B], high_watermark=10), Log([B], high_watermark=10, log_start=start)]
    assert (judged(*logs)[0].first is None) == (start == 1)
    logs[1].high_watermark = 1
    assert (judged(*logs)[0].first is None) == (start == 1)


def test_empty_replicas_are_the_same() -> None:
    assert judge([], bounds_of([Log([], 0).replica()] * 2)) == SAME
