"""One file at a time: what is shown, and what is reported as wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.logdir.test_lookup import batch, partition
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.lookup import IndexEntry
from winnow.logdir.names import INDEX, LOG, SNAPSHOT, TIMEINDEX, TXNINDEX, segment_file
from winnow.logdir.snapshots import encode_snapshot
from winnow.state import ProducerEntry
from winnow.storage.local import LocalStorage
from winnow.verbs.inspect.directories import describe_target, find_target
from winnow.verbs.inspect.values import (
    BatchLine,
    FileKind,
    FileProblem,
    Line,
    NamesLine,
    Note,
    TimeLine,
)
from winnow.wire.batch import Codec
from winnow.wire.internal_topics import CONSUMER_OFFSETS
from winnow.wire.plain import Record

ABORT = bytes(4)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return partition(
        tmp_path / "t-0",
        {
            0: [batch(first, first + 4) for first in range(0, 50, 5)],
            50: [batch(50, 54, codec=Codec.ZSTD)],
        },
    )


def lines(path: Path, *, records: bool = False) -> list[Line]:
    storage = LocalStorage()
    return [
        line
        for file in describe_target(storage, find_target(storage, str(path)), records=records)
        for line in file.lines
    ]


def problems(path: Path) -> list[str]:
    return [line.message for line in lines(path) if isinstance(line, FileProblem)]


def notes(path: Path) -> list[str]:
    return [line.message for line in lines(path) if isinstance(line, Note)]


def test_sound_partition_has_no_remarks(directory: Path) -> None:
    assert problems(directory) == notes(directory) == []
    found = lines(directory, records=True)
    batches = [line for line in found if isinstance(line, BatchLine)]
    assert [b.base_offset for b in batches] == list(range(0, 55, 5))
    assert [r.offset for b in batches for r in b.records or ()] == list(range(55))
    assert {b.codec for b in batches} == {"none", "zstd"}
    assert any(isinstance(line, IndexEntry) for line in found)
    assert any(isinstance(line, TimeLine) for line in found)


def test_records_are_read_only_if_asked_for(directory: Path) -> None:
    assert {
        b.records for b in lines(directory / segment_file(0, LOG)) if isinstance(b, BatchLine)
    } == {None}


def test_every_wrong_crc_is_reported_and_all_batches_shown(directory: Path) -> None:
    log = directory / segment_file(0, LOG)
    size = len(batch(0, 4))
    data = bytearray(log.read_bytes())
    for number in (2, 7):
        data[number * size + 70] ^= 1
    log.write_bytes(data)
    found = [line for line in lines(log) if isinstance(line, BatchLine)]
    assert [b.crc_valid for b in found] == [number not in (2, 7) for number in range(10)]
    assert [
        f"batch at byte {number * size})" in told
        for number, told in zip((2, 7), problems(log), strict=True)
    ]


@pytest.mark.parametrize("size", [1, 13, 25])
def test_log_smaller_than_any_batch_is_reported(directory: Path, size: int) -> None:
    log = directory / segment_file(50, LOG)
    log.write_bytes(log.read_bytes()[:size])
    [told] = problems(log)
    assert "too small for any batch" in told


def test_index_entry_that_names_no_batch_is_reported(directory: Path) -> None:
    index = directory / segment_file(0, INDEX)
    data = bytearray(index.read_bytes())
    data[7] += 1
    index.write_bytes(data)
    [told] = problems(index)
    assert "the position of a batch" in told


def test_torn_index_is_shown_up_to_its_torn_end(directory: Path) -> None:
    index = directory / segment_file(0, INDEX)
    whole = [line for line in lines(index) if isinstance(line, IndexEntry)]
    index.write_bytes(index.read_bytes() + b"\1\2\3")
    assert [line for line in lines(index) if isinstance(line, IndexEntry)] == whole
    [told] = problems(index)
    assert "torn end" in told


@pytest.mark.parametrize(("base", "remark"), [(0, problems), (50, notes)])
@pytest.mark.parametrize(("suffix", "size"), [(INDEX, 80), (TIMEINDEX, 120)])
def test_zeros_after_entries_are_sound_only_in_the_active_segment(
    directory: Path, base: int, remark: object, suffix: str, size: int
) -> None:
    index = directory / segment_file(base, suffix)
    index.write_bytes(index.read_bytes() + bytes(size))
    assert callable(remark)
    assert "bytes of zeros after the entries" in remark(index)[0]
    assert len(problems(index)) == (base == 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data[:-12] + (5).to_bytes(8) + data[-4:], "expected an ascending timestamp"),
        (lambda data: data[:-12], "not the segment's largest timestamp"),
        (lambda data: data[:-12] + (10**12).to_bytes(8) + data[-4:], "with a wrong timestamp"),
        (lambda data: data[:-4] + (44).to_bytes(4), "with a wrong timestamp"),
    ],
)
def test_wrong_time_index_is_reported(directory: Path, change: object, told: str) -> None:
    index = directory / segment_file(0, TIMEINDEX)
    assert callable(change)
    index.write_bytes(change(index.read_bytes()))
    assert any(told in problem for problem in problems(index)), problems(index)


def test_index_without_a_log_is_reported(directory: Path) -> None:
    (directory / segment_file(50, LOG)).unlink()
    assert any("an index without a log" in told for told in problems(directory))


def test_transaction_index_is_compared_with_the_markers(tmp_path: Path) -> None:
    marker = encode_batch(
        [Record(5, 1, ABORT, bytes(6))],
        control=True,
        transactional=True,
        producer_id=7,
        producer_epoch=0,
    )
    directory = partition(
        tmp_path / "t-0", {0: [batch(0, 4, transactional=True, producer_id=7), marker]}
    )
    index = directory / segment_file(0, TXNINDEX)
    index.write_bytes(encode_txn_index([AbortedTransaction(7, 0, 5, 6)]))
    assert problems(directory) == []
    index.write_bytes(encode_txn_index([AbortedTransaction(8, 0, 5, 6)]))
    assert problems(directory) == [f"no ABORT marker of producer 8 at offset 5 ({index} at byte 0)"]
    index.write_bytes(encode_txn_index([AbortedTransaction(7, 0, 5, 6)])[:-1])
    assert any("a multiple of 34 bytes" in told for told in problems(directory))


def test_damaged_snapshot_is_reported(directory: Path) -> None:
    snapshot = directory / segment_file(50, SNAPSHOT)
    entry = ProducerEntry(7, 0, 4, 4, 4, 1, -1, -1)
    snapshot.write_bytes(encode_snapshot([entry]))
    assert lines(snapshot) == [entry]
    snapshot.write_bytes(encode_snapshot([entry])[:-1] + b"\1")
    [told] = problems(snapshot)
    assert "damaged producer snapshot" in told


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("leader-epoch-checkpoint", "0\n2\n0 0\n", "a malformed checkpoint"),
        ("partition.metadata", "version: 1\ntopic_id: x", "partition.metadata can't be read"),
        ("nonsense.log", "", "does not begin with an offset"),
    ],
)
def test_problems_of_other_files_are_reported(
    directory: Path, name: str, content: str, told: str
) -> None:
    (directory / name).write_text(content)
    assert any(told in problem for problem in problems(directory / name))


def test_special_file_is_not_opened(directory: Path) -> None:
    os.mkfifo(directory / segment_file(99, LOG))
    assert problems(directory) == [f"not a regular file ({directory / segment_file(99, LOG)})"]


def test_swap_files_are_checked_against_each_other(directory: Path) -> None:
    for suffix in (LOG, INDEX, TIMEINDEX):
        path = directory / segment_file(0, suffix)
        path.with_name(path.name + ".swap").write_bytes(path.read_bytes())
    assert problems(directory) == []


def changing(path: Path, change: object) -> Iterator[Line]:
    """Yield the lines of a file that is changed after its first line was read."""
    storage = LocalStorage()
    [file] = describe_target(storage, find_target(storage, str(path)), records=False)
    yield next(file.lines)
    assert callable(change)
    change()
    yield from file.lines


def test_file_that_grows_is_reported(directory: Path) -> None:
    log = directory / segment_file(50, LOG)
    found = list(changing(log, lambda: log.write_bytes(log.read_bytes() * 2)))
    assert isinstance(found[-1], FileProblem)
    assert "changed while it was read" in found[-1].message


def test_removed_file_is_reported(directory: Path) -> None:
    log = directory / segment_file(50, LOG)
    found = list(changing(log, log.unlink))
    assert isinstance(found[-1], FileProblem)
    assert "removed while it was read" in found[-1].message


def test_truncated_file_is_reported(directory: Path) -> None:
    log = directory / segment_file(0, LOG)
    storage = LocalStorage()
    [file] = describe_target(storage, find_target(storage, str(log)), records=False)
    log.write_bytes(b"")
    shorter, changed = file.lines
    assert isinstance(shorter, FileProblem)
    assert "became shorter while it was being read" in shorter.message
    assert isinstance(changed, FileProblem)


def test_names_in_an_internal_topic_are_listed(tmp_path: Path) -> None:
    keys = [b"\0\2" + len(name).to_bytes(2) + name for name in (b"beta", b"alpha", b"beta")]
    records = [Record(offset, 1, key, None) for offset, key in enumerate([*keys, b"\xff", None])]
    directory = partition(tmp_path / f"{CONSUMER_OFFSETS}-0", {0: [encode_batch(records)]})
    found = lines(directory / segment_file(0, LOG))
    assert found[-1] == NamesLine(("alpha", "beta"))
    assert isinstance(found[0], BatchLine)
    assert found[0].records is None
    shown = lines(directory / segment_file(0, LOG), records=True)[0]
    assert isinstance(shown, BatchLine)
    internal = [r.internal for r in shown.records or ()]
    assert [i and i.key for i in internal] == [
        *((("group", n),) for n in ("beta", "alpha", "beta")),
        None,
        None,
    ]


def test_files_of_a_directory_have_their_kinds(directory: Path) -> None:
    (directory / "00000000000000000007-0000000001.checkpoint").write_bytes(batch(0, 4))
    (directory / "something").write_bytes(b"x")
    storage = LocalStorage()
    files = list(describe_target(storage, find_target(storage, str(directory)), records=False))
    kinds = {Path(file.path).name: (file.kind, file.base_offset) for file in files}
    assert kinds["00000000000000000007-0000000001.checkpoint"] == (FileKind.METADATA_SNAPSHOT, None)
    assert kinds["something"] == (FileKind.OTHER, None)
    assert [
        problem for file in files for problem in file.lines if isinstance(problem, FileProblem)
    ] == []
