"""Sum up a cleaned segment for later runs, which then need not read it (docs/decisions/0054)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.summaries.store import MOST_KEYS, write_keys
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
    keys = np.sort(joined(blobs, np.uint64))
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
