"""Small partitions that become large: `kafka-log` reads them in bounded memory, or says why not."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.targets.batches import sealed
from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import make_partition
from tests.unit.kafka_log.reading import offsets, read, rows
from winnow import batch_memory
from winnow.errors import CorruptLogError
from winnow.kafka_log import read as kafka_log_read
from winnow.wire.batch import HEADER_V2_SIZE, Codec
from winnow.wire.plain import Record

TOPIC = "t" * 240
OWN_PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
PEAK = """
import resource, sys
from pathlib import Path
from tests.unit.kafka_log.reading import scan
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
reader, partitions = scan(Path(sys.argv[1]))
before, count = peak(), 0
for partition in partitions:
    for batch in reader.read(partition):
        count += batch.num_rows
        del batch
print(peak() - before, count)
"""


def records(count: int) -> list[Record]:
    return [Record(offset, 0, None, None) for offset in range(count)]


def smallest(count: int) -> bytes:
    """Return a batch of records without key, value and headers."""
    area = bytearray()
    for offset in range(count):
        delta = bytearray()
        left = offset << 1
        while left > 0x7F:
            delta.append(left & 0x7F | 0x80)
            left >>= 7
        area += bytes([(5 + len(delta) + 1) << 1, 0, 0, *delta, left, 1, 1, 0])
    batch = bytearray(encode_batch(records(1))[:HEADER_V2_SIZE] + area)
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[23:27], batch[57:61] = (count - 1).to_bytes(4), count.to_bytes(4)
    return sealed(bytes(batch))


def test_batch_of_many_records_takes_little_memory(tmp_path: Path) -> None:
    """All columns of a record of 9 bytes take about 500: the topic's name alone 240."""
    count = 400_000
    directory = make_partition(tmp_path / f"{TOPIC}-0", {0: [smallest(count)]})
    told = subprocess.check_output(
        [sys.executable, "-c", PEAK, str(directory)], env=OWN_PATHS, text=True
    )
    grown, found = map(int, told.split())
    assert found == count
    assert grown < 120


def test_parts_of_a_batch_are_all_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = ((b"a", b"1"), (b"b", None), (b"a", b"2"))
    log = encode_batch([Record(n, n, b"k%d" % n, b"v", headers[: n % 4]) for n in range(50)])
    directory = make_partition(tmp_path / "t-0", {0: [log]})
    whole = rows(directory)
    for most_rows, most_headers in ((1, 100), (7, 5), (100, 1), (100, 100)):
        monkeypatch.setattr(kafka_log_read, "_MOST_ROWS", most_rows)
        monkeypatch.setattr(kafka_log_read, "_MOST_HEADERS", most_headers)
        assert rows(directory) == whole
        assert offsets(directory, startingOffsets=13) == list(range(13, 50))
        assert read(directory)["offset"].to_pylist() == list(range(50))


@pytest.mark.parametrize("what", ["records", "headers"])
def test_batch_beyond_the_memory_of_a_task_is_a_problem_row(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_memory, "batch_budget", lambda: 16 * 1_000)
    large = records(1_500)
    if what == "headers":
        large = [Record(0, 0, None, None, ((b"", None),) * 1_500)]
    sound = [encode_batch([Record(n, 0, b"k", b"v")]) for n in (2_000, 2_001)]
    log = [encode_batch(large), *sound]
    directory = make_partition(tmp_path / "t-0", {0: log})
    found = rows(directory, mode="PERMISSIVE")
    assert [row["offset"] for row in found] == [None, 2_000, 2_001]
    problem = found[0]["problem"]
    assert f"too many {what} for the memory: expected at most 1000, found 1500" in problem
    assert "WINNOW_MAX_BATCH_BYTES" in problem
    with pytest.raises(CorruptLogError, match=f"too many {what} for the memory"):
        rows(directory, mode="FAILFAST")
    assert [row["offset"] for row in rows(directory, mode="DROPMALFORMED")] == [2_000, 2_001]


def test_many_bombs_are_read_one_after_the_other(tmp_path: Path) -> None:
    """Twenty batches of 4 MiB each, in 10 KB."""
    one = encode_batch([Record(0, 0, None, bytes(4 * 2**20))], codec=Codec.ZSTD)
    assert len(one) < 500
    log = b"".join(struct.pack(">q", offset) + one[8:] for offset in range(20))
    directory = make_partition(tmp_path / "t-0", {0: [log]})
    told = subprocess.check_output(
        [sys.executable, "-c", PEAK, str(directory)], env=OWN_PATHS, text=True
    )
    grown, found = map(int, told.split())
    assert found == 20
    assert grown < 80
