from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import first_fault_plain
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.logs import NOW, log, random_log, record
from winnow.wire.batch import HEADER_V2_SIZE, Codec
from winnow.wire.buffers import RecordBlocks, as_bytes
from winnow.wire.inflate import inflate
from winnow.wire.record_checks import check_records
from winnow.wire.record_faults import Fault


def faults(blocks: RecordBlocks) -> list[Fault]:
    """Return the kernel's faults, once the twin agrees on which batches have one."""
    found = [Fault(fault) for fault in check_records(blocks).fault]
    assert [fault is not Fault.NONE for fault in found] == [
        first_fault_plain(blocks, i) is not None for i in range(len(found))
    ]
    return found


@given(seed=st.integers(0, 2**32))
def test_undamaged_log_has_no_fault(seed: int) -> None:
    buf, rows = log(random_log(seed))
    assert set(faults(inflate(buf, rows))) <= {Fault.NONE}


@given(seed=st.integers(0, 2**32))
def test_kernel_agrees_with_twin_on_damage(seed: int) -> None:
    rng = random.Random(seed)
    buf, rows = log(random_log(seed, (Codec.NONE,)))
    damaged = bytearray(buf.tobytes())
    for _ in range(rng.randrange(1, 4)):
        row = rows[rng.randrange(len(rows))]
        if row["size"] > HEADER_V2_SIZE:
            at = int(row["position"]) + rng.randrange(HEADER_V2_SIZE, int(row["size"]))
            damaged[at] ^= rng.randrange(1, 256)
    faults(inflate(as_bytes(bytes(damaged)), rows))


@pytest.mark.parametrize(
    ("batch", "fault"),
    [
        (
            encode_batch([record(1), record(2, timestamp=NOW + 9)], max_timestamp=NOW),
            Fault.MAX_TIMESTAMP,
        ),
        (encode_batch([record(1)], max_timestamp=NOW + 1), Fault.MAX_TIMESTAMP),
        (encode_batch([record(1, timestamp=-1)]), Fault.NONE),
        (encode_batch([record(1)], log_append_time=NOW + 5), Fault.NONE),
        (encode_batch([record(1)], log_append_time=-5), Fault.NONE),
        (encode_batch([record(1)], delete_horizon=NOW + 5), Fault.NONE),
        (encode_batch([], base_offset=1, last_offset=4, max_timestamp=NOW), Fault.NONE),
        (encode_batch([record(1), record(5)], last_offset=4), Fault.NONE),
        (encode_batch([record(2), record(1)], base_offset=1, last_offset=2), Fault.NONE),
        (entry(0, 1, value=bytes(40), timestamp=NOW), Fault.NONE),
    ],
)
def test_each_batch_is_judged_separately(batch: bytes, fault: Fault) -> None:
    buf, rows = log([batch, encode_batch([record(10), record(11)])])
    assert faults(inflate(buf, rows)) == [fault, Fault.NONE]
