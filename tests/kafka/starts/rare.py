"""States that are recorded, but not drawn: each is a corner of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.fixtures.data import unpacked
from tests.kafka.starts.table import State

HIGHEST = 2**63 - 1
_NEWEST = HIGHEST - 999


def rare(version: str, kind: str) -> Iterator[State]:
    """The last batch ends at the highest offset, with an offset index and, after a clean stop,
    without.
    """
    root = unpacked(f"starts-{version}") / kind
    (found,) = root.glob("?/d-0")
    segment = Path(found.relative_to(root), f"{_NEWEST:020d}")
    batch = ("last-batch", f"{segment}.log", str(HIGHEST))
    yield State(version, kind, (batch, ("write", f"{segment}.index", "")))
    if kind == "stopped":
        yield State(version, kind, (batch,))
