"""Hold what Winnow keeps of segments against the segments themselves, record by record."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.twins.siphash import siphash_plain
from winnow.cleaning.summaries.store import Summaries, read_keys, read_list, stamps_of
from winnow.cleaning.summaries.truncated import seemingly_in
from winnow.logdir.names import LOG, segment_file
from winnow.scan.values import SegmentSummary
from winnow.wire.batch import BATCH, CONTROL, DELETE_HORIZON, MAX_MAGIC, TRANSACTIONAL
from winnow.wire.buffers import Rows, as_bytes
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record, read_records
from winnow.wire.walk import walk_batches

_MOST_BATCHES = 2**16


def check_known(summaries: Path, partition: Path) -> int:
    """Read each segment of a partition that a run may leave unread, and check all that is known of
    it. Return how many there are.

    A run trusts a list if sizes, inodes and times fit, and a file of keys if its checksum fits.
    Whatever else a crash has left there is ignored, here as well.
    """
    trusted = 0
    for place in summaries.glob(f"*/*/{partition.name}"):
        kept = read_list(str(place))
        _check_unique(kept, partition)
        for base, (summary, stamps) in kept.segments.items():
            if stamps is not None and stamps_of(str(partition), base) == stamps:
                _check(summary, partition, place, (summaries / "secret").read_bytes())
                trusted += 1
    return trusted


def _check(summary: SegmentSummary, partition: Path, place: Path, secret: bytes) -> None:
    headers, records = _read(partition / segment_file(summary.base_offset, LOG))
    keys = {one.key for one in records if one.key is not None}
    assert summary.first_batch == int(headers["base_offset"][0])
    assert summary.next_offset == int(headers["last_offset"][-1]) + 1
    assert (summary.batches, summary.checksum) == (len(headers), _checksum(headers))
    assert summary.records == summary.keys == len(records) == len(keys)
    assert all(one.value is not None for one in records)
    assert (headers["magic"] == MAX_MAGIC).all()
    assert (headers["record_count"] > 0).all()
    assert not (headers["attributes"] & (TRANSACTIONAL | CONTROL | DELETE_HORIZON)).any()
    words = read_keys(str(place), summary)
    if words is not None:
        halves = int.from_bytes(secret[:8], "big"), int.from_bytes(secret[8:], "big")
        hashes = np.sort(np.array([siphash_plain(key, halves)[1] for key in keys], np.uint64))
        assert len(seemingly_in(hashes, words, summary.keys)) == len(keys), "a key is denied"


def _check_unique(kept: Summaries, partition: Path) -> None:
    """If a run would believe that each key has one record in the clean part, check it."""
    if kept.unique is None:
        return
    end = kept.unique.end
    bases = [int(path.stem) for path in sorted(partition.glob(f"*{LOG}"))]
    clean = [base for base in bases if base < end]
    segments = [SimpleNamespace(base_offset=base) for base in clean]
    state: Any = SimpleNamespace(directory=str(partition), segments=segments)
    if kept.has_unique_keys(state, end):
        keys = [one.key for base in clean for one in _read(partition / segment_file(base, LOG))[1]]
        assert len(keys) == len({*keys}), "a key has two records"


def _read(log: Path) -> tuple[Rows, list[Record]]:
    data = as_bytes(log.read_bytes())
    headers = np.zeros(_MOST_BATCHES, BATCH)
    count, end, _ = walk_batches(data, 0, 0, headers)
    assert end == len(data), f"{log} is damaged at byte {end}"
    blocks = inflate(data, headers[:count])
    records = [one for n in range(count) for one in read_records(blocks.area(n), blocks.rows[n])]
    return headers[:count], records


def _checksum(headers: Rows) -> int:
    checksum = 0
    for one in headers:
        for name, size in (("base_offset", 8), ("size", 4), ("crc", 4)):
            checksum = zlib.crc32(int(one[name]).to_bytes(size, "big"), checksum)
    return checksum
