"""The last batch of a log, found from the last entry of its offset index on."""

from __future__ import annotations

from winnow.cleaning.prepared.checks import HEADER_BYTES
from winnow.cleaning.prepared.value import Anchor
from winnow.errors import CorruptLogError
from winnow.logdir.batches import End, end_of, read_batches
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, look_up, written_entries
from winnow.logdir.names import INDEX, LOG, MAX_LONG, segment_file
from winnow.state import PartitionState, Segment
from winnow.storage.contract import Storage


def find_anchor(storage: Storage, state: PartitionState) -> Anchor | None:
    """Return the last batch of the log. None: there is none. Raises CorruptLogError."""
    segment = next((s for s in reversed(state.segments) if s.log_bytes), None)
    if segment is None:
        return None
    position, _ = _last_batch(storage, state.directory, segment)
    path = f"{state.directory}/{segment_file(segment.base_offset, LOG)}"
    header = storage.read_range(path, position, HEADER_BYTES).hex()
    return Anchor(segment.base_offset, position, header)


def log_end(storage: Storage, directory: str, active: Segment) -> int:
    """Return the log end offset (S8.3). Raises CorruptLogError."""
    if not active.log_bytes:
        return active.base_offset
    return _last_batch(storage, directory, active)[1].next_offset


def _last_batch(storage: Storage, directory: str, segment: Segment) -> tuple[int, End]:
    """Return the position of the last batch of a segment, and where it ends."""
    base, path = segment.base_offset, f"{directory}/{segment_file(segment.base_offset, LOG)}"
    index = f"{directory}/{segment_file(base, INDEX)}"
    data = storage.read_bytes(index) if storage.exists(index) else b""
    start = look_up(written_entries(data, OFFSET_ENTRY_SIZE), base, MAX_LONG)
    found: tuple[int, End] | None = None
    pieces = read_batches(storage, path, size=segment.log_bytes, start=start, least_offset=base)
    for piece in pieces:
        found = piece.position(len(piece.rows) - 1), end_of(piece.rows[-1])
    if found is None:
        raise CorruptLogError("a log without its last batch", where=path)
    return found
