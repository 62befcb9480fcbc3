from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import tally_records_plain
from tests.unit.wire.legacy_logs import legacy_log, random_legacy_log
from tests.unit.wire.logs import log, random_log, record
from winnow.errors import CorruptLogError
from winnow.wire.batch import HEADER_V2_SIZE, Codec
from winnow.wire.buffers import RecordBlocks, as_bytes
from winnow.wire.inflate import inflate
from winnow.wire.record_checks import RecordTally, tally_records


def columns(tally: RecordTally) -> dict[str, list[list[int]]]:
    return {name: column.tolist() for name, column in tally._asdict().items()}


def outcome(blocks: RecordBlocks) -> dict[str, list[list[int]]] | None:
    """Return what kernel and twin agree on, or None if the records cannot be read."""
    told: list[dict[str, list[list[int]]] | None] = []
    for tally in (tally_records, tally_records_plain):
        try:
            told.append(columns(tally(blocks)))
        except CorruptLogError:
            told.append(None)
    assert told[0] == told[1]
    return told[0]


@given(seed=st.integers(0, 2**32))
def test_kernel_agrees_with_twin(seed: int) -> None:
    buf, rows = log(random_log(seed))
    assert outcome(inflate(buf, rows)) is not None
    buf, rows = legacy_log(random_legacy_log(seed))
    assert outcome(inflate(buf, rows)) is not None


@given(seed=st.integers(0, 2**32))
def test_kernel_agrees_with_twin_on_damage(seed: int) -> None:
    rng = random.Random(seed)
    buf, rows = log(random_log(seed, (Codec.NONE,)))
    damaged = bytearray(buf.tobytes())
    row = rows[rng.randrange(len(rows))]
    if row["size"] > HEADER_V2_SIZE:
        damaged[int(row["position"]) + rng.randrange(HEADER_V2_SIZE, int(row["size"]))] ^= (
            rng.randrange(1, 256)
        )
    outcome(inflate(as_bytes(bytes(damaged)), rows))


@pytest.mark.parametrize(
    ("key", "value", "keyless", "tombstones"),
    [
        (None, b"v", 1, 0),
        (None, None, 1, 0),
        (b"k", None, 0, 1),
        (b"", None, 0, 1),
        (b"", b"", 0, 0),
    ],
)
def test_keyless_records_and_tombstones_are_counted(
    key: bytes | None, value: bytes | None, keyless: int, tombstones: int
) -> None:
    batch = encode_batch([record(0), record(1, key, value)])
    told = outcome(inflate(*log([batch, encode_batch([record(2, key, value)], control=True)])))
    size = len(batch) - len(encode_batch([record(0)]))
    assert told == {
        "keyless": [[keyless, keyless * size], [0, 0]],
        "tombstones": [[tombstones, tombstones * size], [0, 0]],
    }
