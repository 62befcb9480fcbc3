"""Group partitions into batches that are in the private copy at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from winnow.errors import NoSpaceError
from winnow.storage.file_tree import StoredFile


@dataclass(frozen=True, slots=True)
class Unit:
    """A sub-directory of one of the sources. It is fetched, cleaned and written as a whole."""

    source: int
    """Number of the log directory."""
    directory: str
    files: tuple[StoredFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def batches(units: Iterable[Unit], space: int | None) -> Iterator[tuple[Unit, ...]]:
    """Yield units in the order given, as many at once as fit into `space` bytes; None: all.

    Raises NoSpaceError for a unit that exceeds `space`: a partition can be cleaned only as a whole.
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
