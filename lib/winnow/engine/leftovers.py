"""What is told of files that an interrupted run left, where nothing may be changed."""

from __future__ import annotations

from winnow.logdir.listing import SegmentListing
from winnow.logdir.roll_forward import open_round
from winnow.policy.words import number
from winnow.storage.contract import Storage


def what_was_left(storage: Storage, listing: SegmentListing) -> str:
    """What `clean` would put right."""
    left = f"an interrupted run left {number(len(listing.leftovers), 'file')} here"
    interrupted = open_round(storage, listing.directory, storage.list_dir(listing.directory))
    if interrupted is None:
        return f"{left}; `clean` puts that right first"
    _, journal = interrupted
    return (
        f"{left}: {journal.run_id} was replacing {number(len(journal.groups), 'group')} of segments below offset "
        f"{journal.end_offset}; `clean` finishes that first, or gives it up if something has changed since"
    )
