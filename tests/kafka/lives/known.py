"""Keep what Winnow knows of segments when a test gives their files another time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from winnow.cleaning.summaries.store import read_list, record, stamps_of


@contextmanager
def still_known(summaries: Path | None, partition: Path) -> Iterator[None]:
    """What fits before the block still fits after it."""
    places = [] if summaries is None else list(summaries.glob(f"*/*/{partition.name}"))
    fitting = {
        place: [
            summary
            for summary, stamps in read_list(str(place)).values()
            if stamps_of(str(partition), summary.base_offset) == stamps
        ]
        for place in places
    }
    yield
    for place, summaries_of in fitting.items():
        record(str(place), str(partition), summaries_of)
