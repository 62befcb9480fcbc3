"""Find the zeros at the end of an index that take blocks.

A broker makes an index with its full size, which is a hole, and cuts the rest when it rolls the
segment or stops. Most file systems keep the hole. A copy without holes, or a file system that
knows none, gives each zero a place on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from winnow.errors import CorruptLogError
from winnow.logdir.files import pieces
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.logdir.indexes.txnindex import ENTRY
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, base_offset_of, segment_file
from winnow.logdir.unflushed import unflushed_from
from winnow.storage.contract import Entry, Storage

_BLOCK = 4096
_LEAST = 4 * _BLOCK
"""Bytes of blocks from which on an index is looked at."""
_LOG_BYTES_PER_ENTRY = 512
"""Bytes of the log for each entry that an index may have. An index without room for more entries is
not read. Kafka's default for `index.interval.bytes` is 4096.
"""


@dataclass(frozen=True, slots=True)
class IndexZeros:
    """Those behind the last entry of an index."""

    path: str
    begin: int
    """The byte of the first of them."""
    end: int
    """The size of the file."""
    block_bytes: int
    """The bytes of the blocks that only they take."""


def zeros_of(storage: Storage, path: str, index: Entry, *, log_bytes: int) -> IndexZeros | None:
    """Return the zeros behind the last entry of an index, None if it is not larger than its log
    needs. Reads some bytes of an index that is larger.
    """
    taken = index.size if index.allocated is None else index.allocated
    entry = {INDEX: OFFSET_ENTRY_SIZE, TIMEINDEX: TIME_ENTRY_SIZE}.get(
        path[path.rindex(".") :], ENTRY.size
    )
    needed = log_bytes // _LOG_BYTES_PER_ENTRY * entry
    if taken < _LEAST or index.size < needed + _LEAST:
        return None

    def is_zero(number: int) -> bool:
        return not any(storage.read_range(path, number * entry, entry))

    low, high = 0, index.size // entry
    if not high or not is_zero(high - 1):
        return None
    while low < high:  # entries come first, then only zeros
        middle = (low + high) // 2
        if is_zero(middle):
            high = middle
        else:
            low = middle + 1
    begin = low * entry
    freed = taken - -(-begin // _BLOCK) * _BLOCK
    return IndexZeros(path, begin, index.size, freed) if freed > 0 else None


def unflushed_zeros(storage: Storage, directory: str, recovery_point: int) -> Iterator[IndexZeros]:
    """Yield the zeros at the end of the indexes that a broker builds anew when it recovers the log.
    That they are cut changes nothing for it.
    """
    files = {entry.name: entry for entry in storage.list_dir(directory) if entry.is_file}
    bases = sorted(base_offset_of(name) for name in files if name.endswith(LOG))
    for base in bases[unflushed_from(bases, recovery_point) :]:
        log_bytes = files[segment_file(base, LOG)].size
        for name in (segment_file(base, suffix) for suffix in (INDEX, TIMEINDEX)):
            if name in files:
                path = f"{directory}/{name}"
                found = zeros_of(storage, path, files[name], log_bytes=log_bytes)
                yield from () if found is None else (found,)


def cut(storage: Storage, zeros: IndexZeros) -> None:
    """Cut an index before its zeros, which needs no space. Hold the lock. Raises CorruptLogError if
    one of these bytes is not zero.
    """
    for at, data in pieces(storage, zeros.path, zeros.begin, zeros.end):
        if any(data):
            raise CorruptLogError(
                "an index has entries behind its end",
                expected="zeros",
                found="others",
                where=f"{zeros.path}, bytes {at} to {at + len(data)}",
                hint="It is left as it is. A broker builds it anew.",
            )
    storage.truncate(zeros.path, zeros.begin)
    storage.fsync_file(zeros.path)
