"""Find and count the records of some keys in one segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.names import LOG, segment_file
from winnow.scan.chunks import batches_of, chunks_of
from winnow.scan.cut import Split
from winnow.state import Segment
from winnow.storage.segment_io import Bytes, map_range
from winnow.survey.walk import walk_segment
from winnow.verbs.erase.values import Matches
from winnow.wire.batch import CONTROL
from winnow.wire.buffers import Rows
from winnow.wire.inflate import RecordBlocks, inflate_parts
from winnow.wire.key_search import NOT_FOUND, FoundKeys, KeySet, find_keys
from winnow.wire.records import check_crcs


@dataclass(frozen=True, slots=True)
class SegmentMatches:
    base_offset: int
    matches: Matches
    keys: bytes
    """uint32[k]: numbers of the keys that were found, without duplicates."""
    legacy: bool
    """True if the segment has batches of v0 or v1."""


def scan_segment(
    directory: str, segment: Segment, keys: KeySet, *, max_decompressed_bytes: int
) -> SegmentMatches:
    """Read a whole segment.

    Raises CorruptLogError for anything in it that can't be read. Checksums are verified.
    """
    walk = walk_segment(directory, segment.base_offset, segment.log_bytes)
    path = f"{directory}/{segment_file(segment.base_offset, LOG)}"
    matches = Matches()
    numbers = np.empty(0, np.uint32)
    for split in walk.splits:
        with map_range(path, split.start, split.end) as buf:
            for _, found in found_in_split(
                buf, split, path, keys, max_decompressed_bytes=max_decompressed_bytes
            ):
                hit = found.number != NOT_FOUND
                matches += Matches(int(hit.sum()), int(found.size[hit].sum(dtype=np.int64)))
                numbers = np.union1d(numbers, found.number[hit].astype(np.uint32))
            del buf
    return SegmentMatches(segment.base_offset, matches, numbers.tobytes(), walk.legacy)


@dataclass(frozen=True, slots=True)
class Part:
    """Adjacent batches of a split, with their records. `rows` are those of the header walk."""

    rows: Rows
    blocks: RecordBlocks


def found_in_split(
    buf: Bytes, split: Split, path: str, keys: KeySet, *, max_decompressed_bytes: int
) -> Iterator[tuple[Part, FoundKeys]]:
    """Yield all batches of a split, part by part, and which of their records have one of the keys.
    Control records never match.

    `buf` holds the bytes of the split. Raises CorruptLogError with the name of the file.
    """
    try:
        batches = batches_of(buf, path, split.base_offset)
        for some in chunks_of(batches, split.records):
            rows = batches[some]
            check_crcs(buf, rows)
            done = 0
            for blocks in inflate_parts(buf, rows, limit=max_decompressed_bytes):
                part = Part(rows[done : done + len(blocks.rows)], blocks)
                done += len(blocks.rows)
                found = find_keys(blocks, blocks.rows, keys)
                control = (blocks.rows["attributes"] & CONTROL) != 0
                if control.any():
                    found.number[np.repeat(control, blocks.rows["record_count"])] = NOT_FOUND
                yield part, found
    except CorruptLogError as error:
        raise error.inside(path, split.start) from error
