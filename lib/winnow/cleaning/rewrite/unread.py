"""The outcome for a segment that stays as it is, known without reading it."""

from __future__ import annotations

from typing import Any

from winnow.cleaning.result import RecordsRemoved
from winnow.cleaning.tally import none_of_any_age
from winnow.scan.job import GroupJob
from winnow.scan.values import SegmentSummary


def counts_unread(group: GroupJob, known: SegmentSummary) -> dict[str, Any]:
    """Return the fields of `CleanedGroup`."""
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
