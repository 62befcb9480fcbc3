"""What was written is read back while more is being written, and nothing about that may change what is found."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.unit.engine.partitions import INDEX_BYTES, INTERVAL, batch, indexes, record
from winnow.engine import behind
from winnow.engine.behind import reading_behind
from winnow.engine.verify import StagedLog, verify_staged
from winnow.errors import NoSpaceError, VerificationError
from winnow.logdir.names import INDEX, LOG, TIMEINDEX
from winnow.storage.moved import MOVED
from winnow.storage.segment_io import SegmentWriter
from winnow.storage.throttle import Throttle, throttled

BATCHES = [batch(*(record(3 * i + j, b"key-%d" % j, b"v" * 30) for j in range(3))) for i in range(20)]
SIZE = sum(map(len, BATCHES))


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "_PART_BYTES", 2 * len(BATCHES[0]))


def staged_log(path: Path) -> StagedLog:
    return StagedLog(str(path), base_offset=0, index_interval_bytes=INTERVAL, segment_index_bytes=INDEX_BYTES)


def write(log: StagedLog, batches: list[bytes], limit: int | None = None) -> None:
    with reading_behind(log) as written, SegmentWriter(log.path, limit=limit) as writer:
        for data in batches:
            writer.write(data)
            written(writer.size)


def test_all_but_the_last_part_has_been_read_when_the_last_byte_is_written(tmp_path: Path) -> None:
    log = staged_log(tmp_path / "log")
    before = MOVED.read
    write(log, BATCHES[:-1])
    assert log.records == 3 * 18
    assert MOVED.read - before == 18 * len(BATCHES[0])


def test_the_rest_is_read_by_the_verification_and_each_byte_once(tmp_path: Path) -> None:
    log = staged_log(tmp_path / "log")
    before = MOVED.read
    write(log, BATCHES[:-1])
    paths = {LOG: log.path}
    sizes = 0
    for suffix, content in indexes(b"".join(BATCHES[:-1]), 0).items():
        paths[suffix] = str(tmp_path / suffix)
        (tmp_path / suffix).write_bytes(content)
        sizes += len(content)
    assert set(paths) == {LOG, INDEX, TIMEINDEX}
    verify_staged(paths, log, end_offset=100, log_bytes=SIZE - len(BATCHES[-1]), records=3 * 19)
    assert MOVED.read - before == SIZE - len(BATCHES[-1]) + sizes


def test_what_is_damaged_on_the_way_is_an_error_with_its_place(tmp_path: Path) -> None:
    at = 4 * len(BATCHES[0])
    damaged = [*BATCHES[:4], BATCHES[4][:-1] + bytes([BATCHES[4][-1] ^ 1]), *BATCHES[5:]]
    with pytest.raises(VerificationError, match=f"CRC.*at byte {at}"):
        write(staged_log(tmp_path / "a"), damaged)
    damaged[4] = b"\xff" * 100
    with pytest.raises(VerificationError, match=f"can't be read.*at byte {at}"):
        write(staged_log(tmp_path / "b"), damaged)


def test_an_error_of_the_writer_is_the_one_that_is_seen_and_no_thread_is_left(tmp_path: Path) -> None:
    with pytest.raises(NoSpaceError):
        write(staged_log(tmp_path / "log"), BATCHES, limit=SIZE - 1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("reading-behind")]


def test_under_a_throttle_nothing_is_read_behind(tmp_path: Path) -> None:
    log = staged_log(tmp_path / "log")
    with throttled(Throttle(1e12)):
        write(log, BATCHES)
    assert log.records == 0
