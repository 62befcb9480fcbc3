"""A log directory that is written once, file by file. Before `finish`, neither a broker nor Winnow
accepts it as a log directory.

`meta.properties`, without which a broker refuses a directory, is written last, by a conditional
create. A marker beside it says from the start what is being written. No file ever overwrites
another one. So if a run that was thought to be dead and the run that began again write at the same
time, at least one of them notices.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from winnow.cleaning.in_place import refuse_tiered_around
from winnow.errors import UsageError, WinnowError
from winnow.logdir.names import LOCK, META_PROPERTIES, UNFINISHED
from winnow.storage.file_tree import FileTree, StoredFile
from winnow.storage.local_tree import remove_empty_directories

_BESIDE = (LOCK, UNFINISHED)


@dataclass(slots=True)
class Destination:
    tree: FileTree
    marker: bytes
    """Content of this run's own marker."""
    _sizes: dict[str, int] = field(default_factory=dict, init=False)

    def put(self, directory: str, file: StoredFile) -> None:
        """Write a file of a local directory. May be called from any thread."""
        try:
            self.tree.put(file.name, f"{directory}/{file.name}")
        except FileExistsError:
            raise _other_writer(self.tree, f"{file.name}, which this run has not written") from None
        self._sizes[file.name] = file.size

    def finish(self, meta_properties: bytes) -> None:
        """Make it a log directory, if it holds what this run has written and nothing else."""
        self.tree.settle()
        found = {file.name: file.size for file in self.tree.list_tree() if file.name not in _BESIDE}
        different = sorted(name for name, _ in found.items() ^ self._sizes.items())
        if different:
            raise _other_writer(
                self.tree, f"{different[0]}: missing, of another size, or from another run"
            )
        if self.tree.read_range(UNFINISHED, 0, len(self.marker) + 1) != self.marker:
            raise _other_writer(self.tree, "the marker of another run")
        try:
            self.tree.create(META_PROPERTIES, meta_properties)
        except FileExistsError:
            raise _other_writer(self.tree, META_PROPERTIES) from None
        self.tree.settle()
        self.tree.delete(UNFINISHED)
        self.tree.settle()


def check_free(tree: FileTree, *, begin_again: bool) -> None:
    """Check that a place can be written to.

    Raises UsageError for a place that holds anything except what an unfinished run left, and for
    tiered storage.
    """
    refuse_tiered_around(tree)
    names = [name for name in tree.list_top() if name != LOCK]
    if not names:
        return
    if UNFINISHED not in names or META_PROPERTIES in names:
        raise UsageError(
            "the destination is not empty",
            expected="an empty or new directory",
            found=f"{names[0]!r}" + (f" and {len(names) - 1} more" if names[1:] else ""),
            where=tree.url,
            hint="Winnow never overwrites files there. Choose another place, or remove the files.",
        )
    if not begin_again:
        raise UsageError(
            "another run did not finish writing there, or is still writing",
            found=tree.read_range(UNFINISHED, 0, 1000).decode(errors="replace").strip(),
            where=tree.url,
            hint="If that run has ended, add --begin-again: it removes what the run left and "
            "writes everything again.",
        )


def begin(
    tree: FileTree, *, run_id: str, source: str, begin_again: bool, left_out: UsageError | None
) -> Destination:
    """Remove what an unfinished run left, and mark the place as begun. Raises as `check_free`.

    `left_out`: why nothing will be written. The place then stays unfinished.
    """
    check_free(tree, begin_again=begin_again)
    if UNFINISHED in tree.list_top():
        clear(tree)
    about = {"run_id": run_id, "source": source}
    about |= {} if left_out is None else {"left_out": str(left_out)}
    marker = json.dumps(about).encode() + b"\n"
    try:
        tree.create(UNFINISHED, marker)
    except FileExistsError:
        raise _other_writer(tree, "the marker of another run") from None
    tree.settle()
    return Destination(tree, marker)


def clear(tree: FileTree) -> None:
    """Remove what an unfinished run wrote, last the marker, which shows that this is allowed."""
    for file in tree.list_tree():
        if file.name not in _BESIDE:
            tree.delete(file.name)
    if tree.local_path is not None:
        remove_empty_directories(tree.local_path)
    tree.settle()
    tree.delete(UNFINISHED)
    tree.settle()


def _other_writer(tree: FileTree, found: str) -> WinnowError:
    return WinnowError(
        "another process is writing to the destination",
        expected="only this run",
        found=found,
        where=tree.url,
        hint="The copy there is incomplete. Stop the other process, then run again with "
        "--begin-again.",
    )
