"""The Spark job of a comparison: read all records and judge them, one bucket of keys at a time."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark import SparkContext

from winnow.errors import FAILS_ONE_PARTITION
from winnow.kafka_log.ranges import ReadRange
from winnow.runtime.failure import failure
from winnow.runtime.meter import metered
from winnow.runtime.packing import packed, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.throttle import in_task
from winnow.storage.places import Places
from winnow.verbs.compare.judge import SAME, BucketVerdict, judge
from winnow.verbs.compare.replicas import Bounds, ReplicaLog, to_read
from winnow.verbs.compare.scan import Blob, by_bucket, scan_range
from winnow.verbs.compare.values import Comparison
from winnow.words import counted

BUCKET_BYTES = 32 << 20
"""Bytes of log, over all replicas, that one bucket of keys is meant for."""
_MOST_BUCKETS = 1 << 12
_TASK_BYTES = 1 << 30
_LEAST_BYTES = 1 << 16
"""Weight of a range, even if it is empty."""

_Key = tuple[int, int]
"""Number of a partition and of one of its buckets. The bucket is -1 for a verdict."""
_Piece = tuple[int, int, ReadRange]
"""Number of a partition and of one of its replicas, and a range to read."""
_Plans = Mapping[int, tuple[Bounds, int]]
"""Bounds of each partition, and how many buckets it has."""


@dataclass(frozen=True, slots=True)
class Work:
    """A partition whose records have to be read. `comparison` is what is known before."""

    comparison: Comparison
    replicas: tuple[ReplicaLog, ...]
    bounds: Bounds

    @property
    def buckets(self) -> int:
        return 1 + min(
            sum(home.log_bytes for home in self.replicas) // BUCKET_BYTES, _MOST_BUCKETS - 1
        )


def read_and_judge(
    sc: SparkContext, works: Mapping[int, Work], progress: Progress
) -> Mapping[int, BucketVerdict]:
    """Return the verdict on each partition, by number."""
    verdicts = dict.fromkeys(works, SAME)
    pieces = [
        (number, replica, one)
        for number, work in works.items()
        for replica, home in enumerate(work.replicas)
        for one in to_read(home, work.bounds, replica)
    ]
    if not pieces:
        return verdicts
    weights = [one.end_byte - one.start_byte + _LEAST_BYTES for _, _, one in pieces]
    tasks = task_count(
        sum(weights), per_task=_TASK_BYTES, items=len(pieces), parallelism=sc.defaultParallelism
    )
    lists = packed(pieces, weights, tasks=tasks)
    buckets = [(number, bucket) for number, work in works.items() for bucket in range(work.buckets)]
    judges = min(len(buckets), max(tasks, 3 * sc.defaultParallelism))
    task_of = {key: number % judges for number, key in enumerate(buckets)}
    plans = {number: (work.bounds, work.buckets) for number, work in works.items()}
    secret = (secrets.randbits(64), secrets.randbits(64))
    with watched(
        sc, progress, f"comparing {counted(len(works), 'partition')}", tasks=tasks + judges
    ):
        found = (
            sc.parallelize(lists, tasks)
            .mapPartitions(in_task(partial(_scan, secret, plans)))
            .partitionBy(judges, lambda key: task_of.get(key, 0))
            .mapPartitions(metered(partial(_judge, plans)))
            .collect()
        )
    for number, verdict in found:
        verdicts[number] += verdict
    return verdicts


def _scan(
    secret: tuple[int, int], plans: _Plans, tasks: Iterable[list[_Piece]]
) -> Iterator[tuple[_Key, Blob | BucketVerdict]]:
    for number, replica, piece in (one for task in tasks for one in task):
        (bounds, buckets), records, failed = plans[number], 0, None
        try:
            for found in scan_range(Places(), piece, bounds, secret):
                if isinstance(found, int):
                    records += found
                    continue
                for bucket, own in by_bucket(found, buckets):
                    yield (number, bucket), (replica, own.tobytes())
        except FAILS_ONE_PARTITION as error:
            failed = replica, failure(error)
        yield (number, -1), BucketVerdict(records=records, unreadable=failed)


def _judge(
    plans: _Plans, items: Iterable[tuple[_Key, Blob | BucketVerdict]]
) -> Iterator[tuple[int, BucketVerdict]]:
    blobs: dict[_Key, list[Blob]] = defaultdict(list)
    for key, item in items:
        if isinstance(item, BucketVerdict):
            yield key[0], item
        else:
            blobs[key].append(item)
    while blobs:
        (number, _), own = blobs.popitem()
        yield number, judge(own, plans[number][0])
