"""Read all records of compacted topics for two facts that no header holds: which records have no
key, and how old the tombstones are.

One task reads whole segments piece by piece and keeps only sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyspark import SparkContext

from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.result import TOMBSTONE_AGES
from winnow.cleaning.rewrite.cleaned import by_age
from winnow.errors import errors_inside
from winnow.logdir.batches import read_batches
from winnow.logdir.names import LOG, segment_file
from winnow.runtime.failure import Failure, all_or_failure
from winnow.runtime.progress import Progress
from winnow.runtime.spread import spread_grouped
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.verbs.doctor.values import Census
from winnow.verbs.erase.values import Amount
from winnow.verbs.explain.partition import trusted
from winnow.wire.batch import DELETE_HORIZON, MAX_MAGIC
from winnow.wire.buffers import RecordBlocks
from winnow.wire.inflate import inflate_parts
from winnow.wire.record_checks import tally_records
from winnow.wire.records import check_crcs
from winnow.words import counted

Sums: TypeAlias = NDArray[np.int64]
"""Columns: records and bytes. Rows: tombstones by age, data without a key, tombstones whose delete
horizon has come, is to come, and without one.
"""
_NOTHING: Sums = np.zeros((len(TOMBSTONE_AGES) + 4, 2), np.int64)


def take_census(
    sc: SparkContext, items: Sequence[PlannedPartition], *, now: int, progress: Progress
) -> tuple[Census, ...]:
    """Take the census of each of these partitions, sorted by name. `now`, in ms since the epoch,
    gives the age of tombstones.
    """
    found = spread_grouped(
        sc,
        partial(_sums_of_segment, now),
        [
            [
                (item.state.directory, segment, item.config.max_decompressed_message_bytes)
                for segment in trusted(item.state)
            ]
            for item in items
        ],
        weight=lambda work: work[1].log_bytes,
        name=f"reading the records of {counted(len(items), 'partition')}",
        progress=progress,
    )
    census = map(_census, items, found)
    return tuple(sorted(census, key=lambda one: (one.topic, one.partition, one.log_dir)))


def _sums_of_segment(now: int, work: tuple[str, Segment, int]) -> Sums:
    """Return the `Sums` of all records of a segment. `work`: directory, segment, and the most bytes
    that a batch may hold.

    Raises CorruptLogError for anything that can't be read. Checksums are verified.
    """
    directory, segment, most = work
    path = f"{directory}/{segment_file(segment.base_offset, LOG)}"
    sums = _NOTHING
    pieces = read_batches(Places(), path, size=segment.log_bytes, least_offset=segment.base_offset)
    for piece in pieces:
        with errors_inside(path, piece.start):
            check_crcs(piece.data, piece.rows)
            for blocks in inflate_parts(piece.data, piece.rows, limit=most):
                sums = sums + _sums(blocks, now)
                del blocks
    return sums


def _sums(blocks: RecordBlocks, now: int) -> Sums:
    tally, rows = tally_records(blocks), blocks.rows
    has_horizon = (rows["magic"] == MAX_MAGIC) & ((rows["attributes"] & DELETE_HORIZON) != 0)
    horizon = np.where(has_horizon, rows["base_timestamp"] > now, 2)
    return np.stack(
        [
            [*by_age(rows, tombstones, now), keyless.sum(), *np.bincount(horizon, tombstones, 3)]
            for keyless, tombstones in zip(tally.keyless.T, tally.tombstones.T, strict=True)
        ],
        axis=1,
    ).astype(np.int64)


def _census(item: PlannedPartition, found: Sequence[Sums | Failure]) -> Census:
    whole = all_or_failure(found)
    sums = _NOTHING if isinstance(whole, Failure) else sum(whole, _NOTHING)
    *ages, keyless, come, to_come, none = (Amount(*row) for row in sums.tolist())
    return Census(
        **item.place.named,
        keyless=keyless,
        tombstones=tuple(ages),
        horizon_come=come,
        horizon_to_come=to_come,
        no_horizon=none,
        error=whole.message if isinstance(whole, Failure) else None,
    )
