"""What takes the space of a log directory, as a page shows it."""

from __future__ import annotations

from collections.abc import Iterator

from winnow.cli.out import Line, Paragraph, aligned, item, section
from winnow.verbs.doctor.space import DiskUse, OtherVolume, SpaceKind
from winnow.words import counted, size

_MOST = 10
"""Links, and directories that could not be listed, that are named."""
_SPARSE = 2**20
"""Bytes by which the sizes of files exceed their blocks before the page says so."""
_DIRECTORIES = {SpaceKind.FUTURE, SpaceKind.DELETE, SpaceKind.STRAY}
NAMES = {
    SpaceKind.LOGS: "logs",
    SpaceKind.INDEXES: "indexes",
    SpaceKind.SNAPSHOTS: "producer snapshots",
    SpaceKind.LEFTOVERS: ".deleted, .cleaned, .swap, and staging",
    SpaceKind.PREPARED: "prepared by Winnow, for `commit`",
    SpaceKind.KEPT: "kept by Winnow (--keep-replaced, quarantine)",
    SpaceKind.FUTURE: "-future directories",
    SpaceKind.DELETE: "-delete directories",
    SpaceKind.STRAY: "-stray directories",
    SpaceKind.METADATA_LOG: "__cluster_metadata-0",
    SpaceKind.REMOTE_INDEX_CACHE: "remote-log-index-cache",
    SpaceKind.SMALL: "checkpoints and directories",
    SpaceKind.OTHER: "other files",
}
_WHAT_HAPPENS = {
    SpaceKind.LEFTOVERS: "a broker removes or finishes these when it starts, and so does `recover`",
    SpaceKind.PREPARED: "`commit` installs these while the broker is stopped; `recover` removes "
    "them",
    SpaceKind.KEPT: "no broker looks at these: `recover --purge` deletes what --keep-replaced kept",
    SpaceKind.FUTURE: "replicas that were being moved here. A broker that still has the partition "
    "goes on with the move. Others stay: Kafka 3.9 and later rename them to -stray",
    SpaceKind.DELETE: "a broker deletes these by itself, a minute after it starts "
    "(`file.delete.delay.ms`)",
    SpaceKind.STRAY: "replicas that a broker has set aside. No broker removes them. After a loss "
    "of the metadata log they are the only copies: bring it back, then rename each one back. "
    "Delete a directory only if its topic is deleted, or other nodes have the partition in sync",
    SpaceKind.OTHER: "neither Kafka nor Winnow makes these",
}


def disk_use(use: DiskUse) -> Iterator[Line]:
    yield from section(f"What takes the space of {use.log_dir}, as df counts it", _lines(use))


def _lines(use: DiskUse) -> Iterator[Line]:
    table = aligned([*_rows(use)], "what", "more")
    yield from (f"  {line}" for line in table[1:])
    kinds = {one.kind for one in use.uses}
    for kind, words in _WHAT_HAPPENS.items():
        if kind in kinds:
            yield item(f"{NAMES[kind]}: {words}")
    for elsewhere in use.elsewhere[:_MOST]:
        yield item(_elsewhere(elsewhere))
    yield from _more(len(use.elsewhere))
    for path in use.uncounted[:_MOST]:
        yield item(f"{path}: not counted: it can't be listed, or is too deep")
    yield from _more(len(use.uncounted))


def _rows(use: DiskUse) -> Iterator[dict[str, str]]:
    for one in use.uses:
        sparse = one.apparent_bytes - one.bytes >= _SPARSE
        yield {
            "what": NAMES[one.kind],
            "bytes": size(one.bytes),
            "inodes": counted(one.inodes, "inode"),
            "more": f"sizes: {size(one.apparent_bytes)}"
            if sparse
            else counted(one.count, "replica")
            if one.kind in _DIRECTORIES
            else "",
        }
        if one.kind is SpaceKind.INDEXES and use.index_zeros.bytes:
            yield {
                "what": "  of these, zeros at their end",
                "bytes": size(use.index_zeros.bytes),
                "inodes": f"in {counted(use.index_zeros.partitions, 'partition')}",
                "more": "",
            }
    if use.outside_bytes is not None:
        many = use.outside_inodes
        yield {
            "what": "the rest of the file system",
            "bytes": size(use.outside_bytes),
            "inodes": "" if many is None else counted(many, "inode"),
            "more": "",
        }


def _elsewhere(one: OtherVolume) -> str:
    where = "another file system" if one.target is None else one.target
    taken = "can't be listed" if one.bytes is None else size(one.bytes)
    kind = "mount point" if one.target is None else "link"
    return f"{one.name}: a {kind} to {where}, {taken}, not in this table"


def _more(many: int) -> Iterator[Line]:
    if many > _MOST:
        yield Paragraph(f"and {many - _MOST:,} more; --json has all", "dim", indent=2)
