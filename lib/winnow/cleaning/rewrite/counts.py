"""Count the output of a group while it is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from winnow.cleaning.result import TOMBSTONE_AGES
from winnow.cleaning.rewrite.cleaned import by_age
from winnow.cleaning.summaries.store import MOST_KEYS, write_keys
from winnow.runtime.spool import Blob, joined
from winnow.scan.cut import batches_checksum
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.topic_usage import Holdings, HoldingsCounter
from winnow.scan.values import SegmentSummary
from winnow.wire.batch import CONTROL, DELETE_HORIZON, EMPTY, LEGACY, TRANSACTIONAL, bits_of
from winnow.wire.buffers import as_bytes
from winnow.wire.filtering import Filtered
from winnow.wire.internal_topics import INTERNAL_TOPICS

_MAY_CHANGE = TRANSACTIONAL | CONTROL | DELETE_HORIZON | LEGACY | EMPTY
"""Time alone changes markers and what has a delete horizon; other partitions' coordinators decide
transactions; batches without records depend on their producers; and v0 and v1 are converted. All
else stays, except tombstones, until a later record has its key (S5.4, S5.5).
"""


class OutputCounts:
    """Records, batches, tombstones, checksum, and users of Kafka's own topics."""

    def __init__(self, topic: str, *, now: int) -> None:
        self._topic, self._now = topic, now
        self._users = HoldingsCounter(as_bytes(b""), topic)
        self.records_before = self.records_after = 0
        self.header_records = 0
        """Records as the headers of the output must count them: -1 in each batch of v0 and v1."""
        self.checksum = 0
        """See `batches_checksum`."""
        self.tombstones = np.zeros(len(TOMBSTONE_AGES), np.int64)
        """See `PartitionResult.tombstones`."""
        self._batches, self._first_batch, self._next_offset = 0, -1, 0
        self._stays = True
        """Whether a cleaning leaves the output as it is while each of its keys is the last."""

    def add(self, filtered: Filtered) -> None:
        data, rows = filtered.data, filtered.batches
        self.records_before += filtered.records_in
        self.records_after += filtered.records_out
        self.checksum = batches_checksum(rows, self.checksum)
        self.tombstones += by_age(rows, filtered.tombstones, self._now)
        if self._topic in INTERNAL_TOPICS:
            users = HoldingsCounter(data, self._topic)
            users.add(rows)
            self._users.add_all_of(users)
        if not len(rows):
            return
        bits = bits_of(rows)
        self.header_records += (
            int(rows["record_count"].sum(dtype=np.int64)) if bits & LEGACY else filtered.records_out
        )
        if not self._batches:
            self._first_batch = int(rows["base_offset"][0])
        self._batches += len(rows)
        self._next_offset = int(rows["last_offset"][-1]) + 1
        self._stays &= not (filtered.tombstones.any() or bits & _MAY_CHANGE)

    def holdings(self) -> Holdings | None:
        """Return records and bytes by name. None for topics other than Kafka's own."""
        return self._users.holdings() if self._topic in INTERNAL_TOPICS else None

    def summary(
        self, job: PartitionJob, group: GroupJob, keys: Sequence[Blob], log_bytes: int
    ) -> SegmentSummary | None:
        """Write the keys of the output. Return what later runs may know of it; None if it is too
        small for that, or if time alone may change it (docs/decisions/0054).
        """
        if job.summaries is None or log_bytes < max(1, job.least_summed_up):
            return None
        if not self._stays or not 0 < sum(map(len, keys)) <= 8 * MOST_KEYS:
            return None
        sorted_keys = joined(keys, np.uint64)
        sorted_keys.flags.writeable = True
        sorted_keys.sort()  # they are millions, so not a copy
        file = write_keys(job.summaries, group.base_offset, sorted_keys)
        if file is None:
            return None
        return SegmentSummary(
            base_offset=group.base_offset,
            first_batch=self._first_batch,
            next_offset=self._next_offset,
            batches=self._batches,
            records=self.records_after,
            checksum=self.checksum,
            keys=len(sorted_keys),
            file=file,
            index_interval_bytes=job.index_interval_bytes,
            segment_index_bytes=job.segment_index_bytes,
        )
