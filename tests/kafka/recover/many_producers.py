"""A log that many producers wrote, with and without transactions: their snapshots have the order of
Java's maps, with several keys in one bucket.
"""

from __future__ import annotations

import random
from pathlib import Path

from tests.crash.by_hand import NOW
from tests.twins.encoding import encode_batch
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.wire.plain import Record

SEGMENTS = 5
BATCHES = 60
PRODUCERS = (
    *range(1000, 1012),
    *range(0, 16 * 12, 16),
    *(7 + (number << 32) for number in range(5)),
    *(5_000_000_000 + 977 * number for number in range(20)),
)
_KEY = {True: b"\0\0\0\1", False: b"\0\0\0\0"}
"""Of a COMMIT, of an ABORT."""
_VALUE = b"\0\0\0\0\0\3"
"""Version 0, coordinator epoch 3."""


def make_many_producers(log_dir: Path, *, seed: int = 1) -> Path:
    """Write the partition m-0 into a directory: logs and empty indexes, as after a crash."""
    rng = random.Random(seed)
    directory = log_dir / "m-0"
    directory.mkdir(parents=True)
    offset, sequences, opened = 0, dict.fromkeys(PRODUCERS, 0), set[int]()
    for _ in range(SEGMENTS):
        base, parts = offset, []
        for _ in range(BATCHES):
            producer = rng.choice(PRODUCERS)
            transactional = producer % 3 == 0
            if transactional and producer in opened and rng.random() < 0.4:
                marker = Record(offset, NOW + offset, _KEY[rng.random() < 0.5], _VALUE)
                parts.append(
                    encode_batch(
                        [marker],
                        transactional=True,
                        control=True,
                        producer_id=producer,
                        producer_epoch=1,
                        leader_epoch=2,
                    )
                )
                opened.discard(producer)
                offset += 1
                continue
            count = rng.randint(1, 4)
            records = [Record(offset + n, NOW + offset, b"k", bytes(30)) for n in range(count)]
            parts.append(
                encode_batch(
                    records,
                    transactional=transactional,
                    producer_id=producer,
                    producer_epoch=1,
                    base_sequence=sequences[producer],
                    leader_epoch=2,
                )
            )
            sequences[producer] += count
            offset += count
            if transactional:
                opened.add(producer)
        (directory / segment_file(base, LOG)).write_bytes(b"".join(parts))
        for suffix in (INDEX, TIMEINDEX):
            (directory / segment_file(base, suffix)).write_bytes(b"")
    return directory
