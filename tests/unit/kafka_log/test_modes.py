"""What each mode does with unreadable data: a row that reports it, no row, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.data import copy_tree, unpacked
from tests.spark.damage import COMPRESSED, PLAIN, Log
from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import make_partition
from tests.unit.kafka_log.reading import offsets, rows, scan
from winnow.errors import CorruptLogError, WinnowError
from winnow.wire.batch import ATTRIBUTES_AT, HEADER_V2_SIZE
from winnow.wire.plain import Record

DAMAGED = unpacked("before-damaged") / "damaged"
CLEAN = unpacked("before-clean") / "clean"
T_CLOSED = 1579


def problems(*paths: Path, **options: Any) -> list[dict[str, Any]]:
    return [row for row in rows(*paths, **options) if row["problem"] is not None]


def fails(*paths: Path, match: str) -> None:
    with pytest.raises(CorruptLogError, match=match):
        rows(*paths, mode="FAILFAST")


def some(first: int, count: int = 5, **fields: Any) -> bytes:
    return encode_batch(
        [Record(first + n, 10 * (first + n), b"k", b"v") for n in range(count)], **fields
    )


def test_batch_with_a_wrong_crc_is_a_problem_row() -> None:
    [row] = problems(DAMAGED / "x-badcrc-old-0")
    shown = {name: value for name, value in row.items() if value is not None and name != "problem"}
    assert shown == {
        "topic": "x-badcrc-old",
        "partition": 0,
        "segment": "00000000000000000445.log",
        "position": 987,
        "baseOffset": 470,
        "batchLastOffset": 479,
        "batchSize": 441,
        "magic": 2,
        "codec": "none",
        "producerId": shown["producerId"],
        "producerEpoch": 0,
        "isTransactional": False,
        "isControl": False,
        "partitionLeaderEpoch": 0,
        "crcOk": False,
    }
    assert "does not match its CRC: base offset 470" in row["problem"]
    kept = offsets(DAMAGED / "x-badcrc-old-0", mode="DROPMALFORMED")
    assert len(kept) == T_CLOSED - 10
    assert set(kept).isdisjoint(range(470, 480))
    assert offsets(DAMAGED / "x-badcrc-old-0") == [
        *kept[: kept.index(469) + 1],
        None,
        *kept[kept.index(469) + 1 :],
    ]
    fails(
        DAMAGED / "x-badcrc-old-0", match=r"CRC: base offset 470 \(.*445\.log, batch at byte 987\)"
    )


@pytest.mark.parametrize("byte", [8, 9, 10])
def test_wrong_length_before_a_batch_is_no_torn_end(tmp_path: Path, byte: int) -> None:
    batches = [some(first) for first in range(0, 50, 5)]
    partition = make_partition(tmp_path / "p-0", {0: batches})
    log, third, size = partition / f"{0:020}.log", 2 * len(batches[0]), len(batches[0])
    changed = bytearray(log.read_bytes())
    changed[third + byte] ^= 0x40
    log.write_bytes(changed)
    *_, row = rows(partition)
    assert f"and a batch at byte {third + size}" in row["problem"]
    assert offsets(partition, mode="DROPMALFORMED") == list(range(10))
    fails(partition, match=f"at byte {third}")
    log.write_bytes(changed[: third + size])
    assert offsets(partition) == list(range(10))


def test_zeros_before_a_batch_are_no_torn_end(tmp_path: Path) -> None:
    partition = make_partition(tmp_path / "p-0", {0: [some(0)]})
    log = partition / f"{0:020}.log"
    log.write_bytes(some(0) + bytes(100))
    assert problems(partition) == []
    log.write_bytes(some(0) + bytes(100) + some(5))
    [row] = problems(partition)
    assert f"log at byte {len(some(0))}" in row["problem"]


@pytest.mark.parametrize(("name", "end"), [("x-torn-0", 1608), ("x-zerotail-0", 1623)])
def test_torn_log_fails_only_in_failfast_mode(name: str, end: int) -> None:
    """A broker's loader cuts the torn end off; FAILFAST reports it."""
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        found = offsets(DAMAGED / name, mode=mode)
        assert None not in found
        assert found[-1] < end
    fails(DAMAGED / name, match=r"batch can't be read.*1223\.log at byte \d+")


def test_torn_closed_segment_is_a_problem_row(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [some(0), some(5)], 10: [some(10), some(15)]})
    first = directory / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[:-1])
    for index in directory.glob("*index"):
        index.unlink()
    [row] = problems(directory)
    assert (row["segment"], row["position"], row["crcOk"]) == (first.name, len(some(0)), None)
    assert "expected a whole batch of 106 bytes, found 105" in row["problem"]
    assert offsets(directory, mode="DROPMALFORMED") == [*range(5), *range(10, 20)]


def test_rest_of_a_segment_after_an_unreadable_batch_is_skipped(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [some(0), some(5), some(10)], 15: [some(15)]})
    log = Log(directory, 0)
    log.put(1, 16, ">b", 9)
    log.write()
    assert offsets(directory) == [*range(5), None, *range(15, 20)]
    assert "magic" in problems(directory)[0]["problem"]
    fails(directory, match=rf"at byte {len(some(0))}\b")


def test_batch_with_malformed_records_and_valid_crc_is_a_problem_row(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [some(5 * n) for n in range(9)]})
    log = Log(directory, 0)
    log.replace_payload(4, b"\xff" * (len(some(0)) - HEADER_V2_SIZE))
    [row] = problems(directory)
    place = f"batch at byte {4 * len(some(0))}, base offset 20, 5 records)"
    assert f"({directory}/{0:020d}.log, {place}" in row["problem"]
    assert (row["baseOffset"], row["batchLastOffset"], row["crcOk"], row["offset"]) == (
        20,
        24,
        True,
        None,
    )
    assert offsets(directory) == [*range(20), None, *range(25, 45)]
    fails(directory, match=rf"records can't be read.*at byte {4 * len(some(0))}\b")


def test_unknown_codec_is_a_problem_row(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [some(0)]})
    log = Log(directory, 0)
    log.put(0, ATTRIBUTES_AT, ">h", 7, sealed=True)
    log.write()
    [row] = problems(directory)
    assert (row["codec"], row["crcOk"]) == ("unknown (7)", True)


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_every_missing_record_has_a_problem_row(name: str, tmp_path: Path) -> None:
    copy_tree(CLEAN / "c-none-0", tmp_path / "c-none-0")
    PLAIN[name](tmp_path / "c-none-0")
    sound = {row["offset"]: row for row in rows(CLEAN / "c-none-0")}
    found = rows(tmp_path)
    kept = [row for row in found if row["problem"] is None]
    assert len(kept) == len(sound) or len(kept) < len(found) or name == "torn-active"
    # No CRC covers the base offset, so the damage may have changed a batch's last offset.
    loose = {"batchLastOffset": 0}
    assert all(sound[row["offset"]] | loose == row | loose for row in kept)


@pytest.mark.parametrize(
    "name", [name for name in sorted(COMPRESSED) if "bomb" not in name and "large" not in name]
)
def test_damage_in_compressed_data_is_a_problem_row(name: str, tmp_path: Path) -> None:
    source, damage = COMPRESSED[name]
    copy_tree(CLEAN / source, tmp_path / source)
    damage(tmp_path / source)
    assert problems(tmp_path / source)


def test_damaged_batch_is_selected_by_its_header() -> None:
    directory = DAMAGED / "x-badcrc-old-0"
    assert offsets(directory, startingOffsets=460)[:11] == [*range(460, 470), None]
    assert None not in offsets(directory, startingOffsets=480)
    times = {
        row["offset"]: row["timestamp"].isoformat()
        for row in rows(directory)
        if row["offset"] is not None
    }
    assert None in offsets(directory, timestampFrom=times[460])
    assert None not in offsets(directory, timestampFrom=times[490])


def test_malformed_checkpoint_is_a_problem_of_every_partition(tmp_path: Path) -> None:
    make_partition(tmp_path / "t-0", {5: [some(5)]})
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n2\nt 0 7\n")
    [row] = problems(tmp_path)
    assert (row["topic"], row["partition"], row["segment"], row["crcOk"]) == ("t", 0, None, None)
    assert "malformed checkpoint: expected 2 entries" in row["problem"]
    assert offsets(tmp_path, mode="DROPMALFORMED") == [*range(5, 10)]
    fails(tmp_path, match="malformed checkpoint")


def test_unfinished_swap_is_a_problem_row() -> None:
    [row] = problems(DAMAGED / "x-swap-0")
    assert "has not replaced its sources" in row["problem"]
    fails(DAMAGED / "x-swap-0", match=r"log\.swap")


def test_segment_removed_after_planning_is_an_error(tmp_path: Path) -> None:
    make_partition(tmp_path / "t-0", {0: [some(0)], 5: [some(5)]})
    reader, partitions = scan(tmp_path / "t-0", mode="DROPMALFORMED")
    (tmp_path / "t-0" / f"{5:020d}.log").unlink()
    with pytest.raises(
        WinnowError,
        match=r"removed after the read was planned.*5\.log\)\. .*load the DataFrame again",
    ):
        list(reader.read(partitions[0]))


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize(
    "kept", [some(0)[:40], some(0, 2), some(0, 9)], ids=["cut", "smaller", "larger"]
)
def test_closed_segment_replaced_after_planning_is_refused(
    mode: str, kept: bytes, tmp_path: Path
) -> None:
    """Spark plans a DataFrame once. After a cleaning, a second query would read old ranges."""
    directory = make_partition(tmp_path / "t-0", {0: [some(0), some(5)], 10: [some(10)]})
    reader, partitions = scan(directory, mode=mode)
    assert sum(batch.num_rows for batch in reader.read(partitions[0])) == 15
    (directory / f"{0:020d}.log").write_bytes(kept)
    with pytest.raises(
        WinnowError,
        match=r"changed since the DataFrame was planned.*0\.log\)\. .*Load the DataFrame again",
    ):
        list(reader.read(partitions[0]))


def test_active_segment_that_grew_after_planning_is_read_as_planned(tmp_path: Path) -> None:
    directory = make_partition(tmp_path / "t-0", {0: [some(0)], 5: [some(5)]})
    reader, partitions = scan(directory)
    with (directory / f"{5:020d}.log").open("ab") as active:
        active.write(some(10))
    assert sum(batch.num_rows for batch in reader.read(partitions[0])) == 10
    assert len(offsets(directory)) == 15


def test_header_keys_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    headers = ((b"ok", b"1"), (b"\xff\xfe", None), ("ü".encode(), b"2"))
    make_partition(tmp_path / "t-0", {0: [encode_batch([Record(0, 1, None, None, headers)])]})
    [row] = rows(tmp_path / "t-0")
    assert row["headers"] == [
        {"key": "ok", "value": b"1"},
        {"key": "\ufffd\ufffd", "value": None},
        {"key": "ü", "value": b"2"},
    ]


def test_timestamp_beyond_sparks_range_is_null(tmp_path: Path) -> None:
    records = [Record(0, 2**62, b"k", b"v"), Record(1, -1, b"k", b"v")]
    make_partition(tmp_path / "t-0", {0: [encode_batch(records)]})
    first, second = rows(tmp_path / "t-0")
    assert first["timestamp"] is None
    assert second["timestamp"].timestamp() == -0.001
