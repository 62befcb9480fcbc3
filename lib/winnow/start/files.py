"""The files of a partition directory that a loader looks at, as they lie on the disk."""

from __future__ import annotations

from winnow.errors import UnpredictedLoadError
from winnow.logdir.names import (
    INDEX_SUFFIXES,
    LOG,
    SNAPSHOT,
    base_offset_of,
    segment_file,
)
from winnow.storage.contract import Storage


class PartitionFiles:
    """Lists the directory once. Raises CorruptLogError for a log, an index or a snapshot that is no
    regular file.

    New snapshots are kept here: nothing is written before the whole partition is planned.
    """

    def __init__(self, storage: Storage, directory: str) -> None:
        entries = storage.list_dir(directory)
        for entry in entries:
            if not entry.is_file and entry.name.endswith((LOG, *INDEX_SUFFIXES, SNAPSHOT)):
                raise UnpredictedLoadError(
                    "not a regular file",
                    expected="a file",
                    found="a symbolic link" if entry.is_link else "something else",
                    where=entry.name,
                    hint="No broker makes it. Find out who did, and remove it.",
                )
        self._storage, self.directory = storage, directory
        self.sizes = {entry.name: entry.size for entry in entries if entry.is_file}
        self.snapshots: dict[int, bytes | None] = {
            base_offset_of(name): None for name in self.sizes if name.endswith(SNAPSHOT)
        }
        """The producer snapshots that a loader would have by now, by offset. None: the one on the
        disk.
        """

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def read(self, name: str) -> bytes:
        return self._storage.read_bytes(self.path(name))

    def read_if_there(self, name: str) -> bytes:
        return self.read(name) if name in self.sizes else b""

    def snapshot(self, offset: int) -> bytes:
        written = self.snapshots.get(offset)
        return self.read(segment_file(offset, SNAPSHOT)) if written is None else written

    def differs(self, name: str, data: bytes) -> bool:
        return self.sizes.get(name) != len(data) or self.read(name) != data

    def orphans(self) -> tuple[str, ...]:
        return tuple(
            name
            for name in sorted(self.sizes)
            if name.endswith(INDEX_SUFFIXES)
            and segment_file(base_offset_of(name), LOG) not in self.sizes
        )
