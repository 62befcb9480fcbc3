"""Which partitions lie in the private copy at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from winnow.errors import NoSpaceError
from winnow.storage.store import StoredFile


@dataclass(frozen=True, slots=True)
class Unit:
    """A sub-directory of one of the sources: fetched, cleaned and put as a whole."""

    source: int
    """Number of the log directory."""
    directory: str
    files: tuple[StoredFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def batches(units: Iterable[Unit], space: int | None) -> Iterator[tuple[Unit, ...]]:
    """In the order given, as many at once as have at most `space` bytes; None: all.

    Raises NoSpaceError for one that has more: it can be cleaned only as a whole.
    """
    batch: list[Unit] = []
    taken = 0
    for unit in units:
        size = unit.bytes
        if space is not None and size > space:
            raise NoSpaceError(
                "not enough work space: a partition is fetched as a whole before it is cleaned",
                expected=f"{size} bytes for {unit.directory}",
                found=str(space),
                hint="Give more with --work-space, or a larger disk with --work-dir.",
            )
        if batch and space is not None and taken + size > space:
            yield tuple(batch)
            batch, taken = [], 0
        batch.append(unit)
        taken += size
    if batch:
        yield tuple(batch)
