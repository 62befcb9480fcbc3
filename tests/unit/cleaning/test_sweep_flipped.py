"""A sweep names the batch of any changed byte, except the few changes that no reader can detect. No
CRC covers base offset, length, leader epoch and magic. A changed length or magic shows, because the
CRC then covers other bytes. A changed leader epoch shows only below -1 or above the checkpoint. A
changed base offset shows only if offsets no longer ascend.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.spark.runs import new_log_dir
from tests.twins.encoding import encode_batch
from tests.unit.cleaning.sweeps import findings
from tests.unit.logdir.test_lookup import T, batch, partition
from tests.unit.wire.legacy_logs import entry, wrapper
from winnow.logdir.names import LOG, SNAPSHOT, segment_file
from winnow.logdir.snapshots import encode_snapshot
from winnow.verbs.verify.kinds import Kind
from winnow.wire.batch import (
    FRAME_SIZE,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET,
    Codec,
)
from winnow.wire.plain import Record

OFFSET_SIZE = 8
COMMIT = bytes((0, 0, 0, 1))
SEGMENTS = {
    100: [
        entry(100, 0),
        entry(101, 1, timestamp=T),
        wrapper(
            105, 1, [entry(n, 1, timestamp=T + n) for n in range(4)], Codec.GZIP, timestamp=T + 3
        ),
        batch(110, 112, leader_epoch=3),
        *(
            batch(120 + 10 * codec, 123 + 10 * codec, codec=codec, leader_epoch=3)
            for codec in Codec
        ),
        encode_batch(
            [], base_offset=200, last_offset=209, producer_id=7, producer_epoch=0, base_sequence=0
        ),
    ],
    220: [
        batch(220, 229, leader_epoch=4, transactional=True, producer_id=7, producer_epoch=0),
        encode_batch(
            [Record(230, T + 2300, COMMIT, bytes(6))],
            control=True,
            transactional=True,
            producer_id=7,
            producer_epoch=0,
        ),
    ],
}
SIZES = {base: sum(map(len, batches)) for base, batches in SEGMENTS.items()}
PLACES = st.sampled_from(sorted(SIZES)).flatmap(
    lambda base: st.tuples(st.just(base), st.integers(0, SIZES[base] - 1))
)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = new_log_dir(tmp_path_factory.mktemp("flipped") / "log-dir")
    directory = partition(home / "t-0", SEGMENTS)
    (directory / segment_file(220, SNAPSHOT)).write_bytes(encode_snapshot([]))
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n3 110\n4 220\n")
    assert findings(home) == []
    return home


def in_order(batches: Sequence[bytes], following: int | None, base: int) -> bool:
    """Return whether the headers' offsets ascend: the only sign of a wrong offset."""
    ranges = [(base - 1, base - 1)]
    for data in batches:
        first = int.from_bytes(data[:OFFSET_SIZE], signed=True)
        delta = (
            int.from_bytes(data[LAST_OFFSET_DELTA_AT:][:4]) if data[MAGIC_AT] == MAX_MAGIC else 0
        )
        ranges.append((first, first + delta))
    fits = ranges[-1][1] < following if following is not None else ranges[-1][1] <= MAX_OFFSET
    return fits and all(before[1] < after[0] for before, after in pairwise(ranges))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(where=PLACES, flip=st.integers(1, 255))
@example(where=(220, FRAME_SIZE), flip=1)
@example(where=(220, FRAME_SIZE), flip=0x80)
@example(where=(220, FRAME_SIZE + 3), flip=1)
@example(where=(220, 0), flip=0x80)
@example(where=(220, MAGIC_AT), flip=2)
def test_flipped_byte_is_found_in_its_batch(
    log_dir: Path, where: tuple[int, int], flip: int
) -> None:
    base, at = where
    batches = SEGMENTS[base]
    starts = list(accumulate(map(len, batches), initial=0))
    number = max(n for n, start in enumerate(starts) if start <= at)
    start, original = starts[number], batches[number]
    changed = bytearray(b"".join(batches))
    changed[at] ^= flip
    path = log_dir / "t-0" / segment_file(base, LOG)
    path.write_bytes(changed)
    try:
        found = findings(log_dir)
    finally:
        path.write_bytes(b"".join(batches))
    in_log = [(f.kind, f.position) for f in found if f.file == f"t-0/{path.name}"]
    if at - start < OFFSET_SIZE:
        now = [
            *batches[:number],
            bytes(changed[start : start + len(original)]),
            *batches[number + 1 :],
        ]
        if not in_order(now, 220 if base == 100 else None, base):
            assert Kind.OFFSETS in {kind for kind, _ in in_log}
    elif FRAME_SIZE <= at - start < MAGIC_AT and original[MAGIC_AT] == MAX_MAGIC:
        epoch = int.from_bytes(changed[start + FRAME_SIZE : start + MAGIC_AT], signed=True)
        assert in_log == ([(Kind.LEADER_EPOCHS, start)] if epoch > 4 or epoch < -1 else [])
    else:
        assert min(in_log, key=lambda item: item[1] or 0)[1] == start
