"""Keep what Winnow knows of segments when a test gives their files another time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from winnow.cleaning.summaries.store import UniqueKeys, read_list, record, stamps_of


@contextmanager
def still_known(summaries: Path | None, partition: Path) -> Iterator[None]:
    """What fits before the block still fits after it."""
    directory = str(partition)
    places = [] if summaries is None else list(summaries.glob(f"*/*/{partition.name}"))
    kept = {place: read_list(str(place)) for place in places}
    fitting = {
        place: [
            summary
            for summary, stamps in one.segments.values()
            if stamps_of(directory, summary.base_offset) == stamps
        ]
        for place, one in kept.items()
    }
    unique = {
        place: found
        for place, one in kept.items()
        for found in [one.unique]
        if found is not None
        and None not in found.stamps.values()
        and found == UniqueKeys.of(directory, found.end, found.stamps)
    }
    yield
    for place, found in fitting.items():
        before = unique.get(place)
        now = None if before is None else UniqueKeys.of(directory, before.end, before.stamps)
        record(str(place), directory, found, unique=now)
