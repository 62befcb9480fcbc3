"""Sum up a cleaned segment for later runs, which then need not read it (docs/decisions/0054)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from winnow.cleaning.result import RecordsRemoved
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.summaries.store import MOST_KEYS, write_keys
from winnow.cleaning.tally import none_of_any_age
from winnow.runtime.spool import joined
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors
from winnow.scan.values import SegmentSummary


def sum_up(
    job: PartitionJob, group: GroupJob, output: GroupOutput, survivors: Sequence[Survivors]
) -> SegmentSummary | None:
    """Write the keys of an output that is complete. Return what later runs may know of it; None if
    it is too small for that, or if time alone may change it.
    """
    if job.summaries is None or output.log_bytes < max(1, job.least_summed_up):
        return None
    blobs = [some.keys for some in survivors if some.keys is not None]
    if not output.shape.stays or not 0 < sum(map(len, blobs)) <= 8 * MOST_KEYS:
        return None
    keys = joined(blobs, np.uint64)
    keys.flags.writeable = True
    keys.sort()  # they are millions, so not a copy
    file = write_keys(job.summaries, group.base_offset, keys)
    if file is None:
        return None
    return SegmentSummary(
        base_offset=group.base_offset,
        first_batch=output.shape.first_batch,
        next_offset=output.shape.next_offset,
        batches=output.shape.batches,
        records=output.records_after,
        checksum=output.checksum,
        keys=len(keys),
        file=file,
        index_interval_bytes=job.index_interval_bytes,
        segment_index_bytes=job.segment_index_bytes,
    )


def counts_unread(group: GroupJob, known: SegmentSummary) -> dict[str, Any]:
    """Return the fields of `CleanedGroup` for a segment that stays as it is, unread."""
    return {
        "base_offset": group.base_offset,
        "source_bases": (group.base_offset,),
        "unchanged": True,
        "records_before": known.records,
        "records_after": known.records,
        "bytes_after": group.segments[0].log_bytes,
        "removed": RecordsRemoved(),
        "tombstones": tuple(none_of_any_age().tolist()),
        "checksum": known.checksum,
        "source_checksums": {group.base_offset: known.checksum},
        "holdings": None,
        "unread": True,
        "summary": known,
    }
