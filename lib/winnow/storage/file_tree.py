"""A tree of whole files that is read or written but never changed: a directory, HDFS path or S3
prefix.

`--output` uses it. It does less than `winnow.storage.contract.Storage`, which changes a log
directory in place (decision 43). It renames nothing and writes nothing twice. Names are relative,
with `/` between their parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from winnow.errors import CorruptLogError

PIECE_BYTES = 8 * 2**20
"""Size of one read or write where each costs a request."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file. Size in bytes, mtime in ns. `stamp` differs after any change that shows."""

    name: str
    size: int
    mtime_ns: int
    stamp: str = ""


class FileTree(Protocol):
    """What Winnow needs to read or write a log directory somewhere. Errors are OSErrors."""

    @property
    def url(self) -> str:
        """The place as people see it. It holds no credentials."""

    @property
    def local_path(self) -> str | None:
        """Path of a local directory; None for any other place."""

    def list_tree(self) -> tuple[StoredFile, ...]:
        """Return all files, ascending by name; none if the place does not exist. UsageError for
        anything that is not a plain file.
        """

    def list_top(self) -> tuple[str, ...]:
        """Return at most 1000 names directly in the place. Those of directories end with `/`."""

    def neighbours(self) -> Iterable[str]:
        """Return names beside and around the place, which tell whose storage it is in."""

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`; fewer only at the end of the file."""

    def fetch(self, file: StoredFile, path: str) -> None:
        """Create a local file with the content and the mtime of `file`, and of a local one also its
        owner and mode.

        CorruptLogError if its size differs from the listed one. FileExistsError if there is a file
        at `path`.
        """

    def create(self, name: str, data: bytes) -> None:
        """Create a small file, whole or not at all. FileExistsError if somebody was faster."""

    def put(self, name: str, path: str) -> None:
        """Create a file from a local one that the caller gives up. FileExistsError as above."""

    def delete(self, name: str) -> None:
        """Delete a file. Does nothing if there is none."""

    def settle(self) -> None:
        """Make earlier `put`, `create` and `delete` calls durable, as far as the place can."""


def size_changed(tree: FileTree, file: StoredFile, found: int) -> CorruptLogError:
    """Return the error that `FileTree.fetch` raises."""
    return CorruptLogError(
        "a file changed while it was being read",
        expected=f"{file.size} bytes",
        found=f"{found} bytes",
        where=f"{tree.url}/{file.name}",
        hint="Something else is writing there. Stop it and run again.",
    )
