"""For any bytes inspect shows or reports something, raises nothing and ends soon."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.logdir.test_lookup import T, batch, partition
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.names import SNAPSHOT, TXNINDEX, segment_file
from winnow.logdir.snapshots import encode_snapshot
from winnow.state import ProducerEntry
from winnow.storage.local import LocalStorage
from winnow.verbs.inspect.directories import describe_target, find_position, find_target
from winnow.verbs.inspect.values import FileProblem
from winnow.wire.batch import Codec
from winnow.wire.internal_topics import CONSUMER_OFFSETS
from winnow.wire.plain import Record


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    codecs = list(Codec)
    marker = encode_batch(
        [Record(50, T, bytes(4), bytes(6))], control=True, transactional=True, producer_id=7
    )
    directory = partition(
        tmp_path / f"{CONSUMER_OFFSETS}-0",
        {
            0: [batch(5 * n, 5 * n + 4, codec=codecs[n % len(codecs)]) for n in range(10)],
            50: [marker, batch(51, 60)],
        },
    )
    (directory / segment_file(50, TXNINDEX)).write_bytes(
        encode_txn_index([AbortedTransaction(7, 0, 50, 51)])
    )
    (directory / segment_file(50, SNAPSHOT)).write_bytes(
        encode_snapshot([ProducerEntry(7, 0, 4, 4, 4, 1, -1, -1)])
    )
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: Z4RmYuRAQUiWYxVMfwzKsQ")
    return directory


def mutated(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(changed[: rng.randrange(len(changed) + 1)])
    if kind == 1:
        return bytes(changed) + rng.randbytes(rng.randrange(1, 100))
    for _ in range(rng.randrange(1, 9)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice(
                (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
            )
    return bytes(changed)


def test_random_damage_never_raises(directory: Path) -> None:
    rng, storage = random.Random(20_261_121), LocalStorage()
    files = sorted(directory.iterdir())
    damaged = 0
    for _ in range(300):
        path = rng.choice(files)
        before = path.read_bytes()
        path.write_bytes(mutated(rng, before))
        target = find_target(storage, str(directory))
        lines = [
            line for file in describe_target(storage, target, records=True) for line in file.lines
        ]
        damaged += any(isinstance(line, FileProblem) for line in lines)
        find_position(storage, target, offset=rng.randrange(70))
        find_position(storage, target, timestamp=T + rng.randrange(700))
        path.write_bytes(before)
    assert damaged > 200
