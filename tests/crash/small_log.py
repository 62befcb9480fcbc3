"""A small log with one of everything that a run must preserve through a crash. Kafka itself writes
its side files.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tests.kafka.judge.judge import Kafka
from tests.twins.encoding import encode_batch
from winnow.logdir.names import LOG, segment_file
from winnow.wire.plain import Record

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
NAME = "t-0"
INTERVAL_BYTES = 200
SEGMENT_BYTES = 800
"""About, of each source; a run merges pairs of them."""
GROUP_BYTES = 2 * SEGMENT_BYTES + 100

# A word is a batch, a letter a record with that key, a capital one a tombstone, a leading digit a
# producer id, and "~" says that the batch has a delete horizon that is over. The last segment is
# the active one.
SEGMENTS = (
    # One group: both sources keep something. The first two segments were cleaned before.
    "ab c Z~ de",
    "f q h r",
    # One group: nothing is left of it but an empty segment.
    "a b cf",
    "r d ac",
    # One group: the second source loses all records, and is beyond the end of the replacement.
    "i 7jk c r",
    "a c d f",
    # One group: the first source loses all records. The tombstone of `q` has expired and is
    # dropped, too.
    "j r",
    "a c d f Q~ B j k r",
    "a s B",
)
FIRST_DIRTY_SEGMENT = 2


def segment_at(number: int) -> int:
    """Base offset of a segment."""
    return sum(letter.isalpha() for words in SEGMENTS[:number] for letter in words)


END = segment_at(len(SEGMENTS))


def time_of(number: int) -> int:
    """ms; segments are an hour apart, the active one an hour old."""
    return NOW - (len(SEGMENTS) - number) * HOUR_MS


def make_small_log(root: Path, kafka: Kafka, *, log_start_offset: int = 0) -> Path:
    """A log directory with this one partition, as a broker that was stopped in good order leaves
    it.
    """
    directory = root / NAME
    directory.mkdir(parents=True)
    (root / "meta.properties").write_text("#\nversion=1\nnode.id=1\ncluster.id=c\n")
    sequences: dict[int, int] = {}
    for number, words in enumerate(SEGMENTS):
        offset = segment_at(number)
        data = b""
        *others, last = words.split()
        for word in others:
            data += _batch(word, offset, number, sequences)
            offset += sum(map(str.isalpha, word))
        pad = SEGMENT_BYTES - len(data) - len(_batch(last, offset, number, dict(sequences)))
        data += _batch(
            last, offset, number, sequences, pad=pad if number + 1 < len(SEGMENTS) else 0
        )
        (directory / segment_file(segment_at(number), LOG)).write_bytes(data)
    # Recovery as after a crash: it writes indexes, leader epochs and, for all segments but the
    # first, snapshots.
    kafka.open(directory, unclean=True, now=NOW, config={"index.interval.bytes": INTERVAL_BYTES})
    for number in range(len(SEGMENTS)):
        os.utime(
            directory / segment_file(segment_at(number), LOG), ns=(time_of(number) * 10**6,) * 2
        )
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    first_dirty = segment_at(FIRST_DIRTY_SEGMENT)
    for name, offset in {
        "cleaner": first_dirty,
        "log-start": log_start_offset,
        "replication": END,
    }.items():
        if offset:
            file = root / f"{name}-offset-checkpoint"
            file.write_text(f"0\n2\nother 3 99\nt 0 {offset}\n")
    return root


def _batch(
    word: str, offset: int, segment: int, sequences: dict[int, int], *, pad: int = 0
) -> bytes:
    producer = int(word[0]) if word[0].isdigit() else -1
    records = []
    for at, letter in enumerate(filter(str.isalpha, word), start=offset):
        value = None if letter.isupper() else f"{letter}{at}".encode()
        records.append(Record(at, time_of(segment) + at, letter.lower().encode(), value))
    if pad:
        records[-1] = replace(records[-1], value=(records[-1].value or b"").ljust(pad, b"."))
    sequence = -1 if producer < 0 else sequences.get(producer, 0)
    sequences[producer] = sequence + len(records)
    return encode_batch(
        records,
        leader_epoch=segment // 3,
        delete_horizon=NOW - 1 if word.endswith("~") else None,
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=sequence,
    )
