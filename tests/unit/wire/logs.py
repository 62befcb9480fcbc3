"""Small logs for the tests of this folder, and walks over them."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np

from tests.twins.encoding import encode_batch
from winnow.wire.batch import BATCH, Codec, WalkStatus
from winnow.wire.buffers import Bytes, Rows, as_bytes
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches

NOW = 1_800_000_000_000


def record(
    offset: int, key: bytes | None = b"k", value: bytes | None = b"v", *, timestamp: int = NOW
) -> Record:
    return Record(offset, timestamp, key, value)


def log(batches: Iterable[bytes]) -> tuple[Bytes, Rows]:
    """Return the bytes of all batches, and their rows."""
    buf = as_bytes(b"".join(batches))
    out = np.zeros(len(buf) // 61 + 1, BATCH)
    count, position, status = walk_batches(buf, 0, 0, out)
    assert (position, status) == (len(buf), WalkStatus.END)
    return buf, out[:count]


def random_batch(rng: random.Random, base: int, codec: Codec) -> bytes:
    """Return one batch with everything that S2.2 allows."""

    def some(longest: int) -> bytes | None:
        return (
            None if rng.random() < 0.15 else rng.randbytes(rng.choice((0, 1, 7, 8, 9, 40, longest)))
        )

    records, offset = [], base
    for _ in range(rng.randrange(6)):
        offset += rng.choice((0, 0, 1, 200))
        headers = tuple((some(70) or b"", some(130)) for _ in range(rng.choice((0, 0, 2))))
        timestamp = NOW + rng.choice((-(10**6), -1, 0, 1, 63, 64, 10**9))
        records.append(Record(offset, timestamp, some(200), some(300), headers))
        offset += 1
    return encode_batch(
        records,
        base_offset=base,
        last_offset=offset + rng.choice((0, 3)),
        leader_epoch=rng.choice((-1, 0, 7)),
        codec=codec,
        log_append_time=rng.choice((None, None, NOW + 5)),
        transactional=rng.random() < 0.3,
        control=rng.random() < 0.1,
        delete_horizon=rng.choice((None, None, NOW - 1, NOW, NOW + 1)),
        producer_id=rng.choice((-1, 4000)),
        producer_epoch=rng.choice((-1, 3)),
        base_sequence=rng.choice((-1, 0, 2**31 - 1)),
    )


def random_log(seed: int, codecs: tuple[Codec, ...] = tuple(Codec)) -> list[bytes]:
    rng = random.Random(seed)
    batches, base = [], rng.choice((0, 10**12))
    for _ in range(rng.randrange(1, 6)):
        batches.append(random_batch(rng, base, rng.choice(codecs)))
        base += 3000
    return batches
