"""An incomplete, torn or damaged metadata log: what of it counts, and what is an error (S9.3)."""

from __future__ import annotations

import os
import random
import resource
from pathlib import Path

import pytest

from tests.fixtures.data import unpacked
from tests.unit.logdir.metadata_logs import (
    COMPACT,
    FOOTER,
    HEADER,
    batch,
    control,
    log,
    of_log,
    overrides,
    read,
    segment,
    snapshot,
)
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.metadata_values import (
    ID_B,
    abort,
    begin,
    broker_config,
    end,
    framed,
    no_op,
    partition,
    remove_topic,
    topic,
)
from winnow.errors import CorruptLogError
from winnow.logdir.metadata import read_cluster_metadata
from winnow.scan.chunks import batches_of
from winnow.storage.local import LocalStorage
from winnow.wire.buffers import as_bytes

RECORDED = unpacked("before-clean") / "clean"


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [control(0, HEADER), batch(1, topic("x"))],
        [control(0, HEADER)],
        [batch(0, topic("x")), control(1, FOOTER)],
        [control(0, HEADER), batch(1, topic("x")), control(2, FOOTER)[:-1]],
        [control(0, HEADER), batch(1, topic("x"))[:-2] + b"zz", control(2, FOOTER)],
    ],
)
def test_incomplete_snapshot_is_skipped_for_an_older_one(
    tmp_path: Path, batches: list[bytes]
) -> None:
    snapshot(tmp_path, 5, batches=batches)
    (tmp_path / f"{6:020d}-0000000001.checkpoint.part").write_bytes(b"")
    (tmp_path / f"{6:020d}-0000000001.checkpoint.deleted").write_bytes(b"")
    snapshot(tmp_path, 2, topic("t"))
    log(tmp_path, COMPACT, no_op(), no_op(), no_op(), base=2)
    metadata = read(tmp_path)
    assert overrides(metadata) == {"t": {"cleanup.policy": "compact"}}
    assert len(metadata.notes) == 1
    assert f"{5:020d}-0000000001.checkpoint" in metadata.notes[0]


def test_incomplete_snapshot_without_earlier_records_is_an_error(tmp_path: Path) -> None:
    snapshot(tmp_path, 5, batches=[control(0, HEADER), batch(1, topic("x"))])
    log(tmp_path, COMPACT, base=5)
    with pytest.raises(
        CorruptLogError,
        match="records of the metadata log are missing: expected offset 0, found offset 5",
    ):
        read(tmp_path)


def test_offset_gap_is_an_error(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic("t")), batch(2, COMPACT))
    with pytest.raises(CorruptLogError, match="expected offset 1, found offset 2"):
        read(tmp_path)
    segment(tmp_path, 0, batch(0, topic("t")))
    segment(tmp_path, 3, batch(3, COMPACT))
    with pytest.raises(CorruptLogError, match="expected offset 1, found offset 3"):
        read(tmp_path)
    snapshot(tmp_path, 2, topic("t"))
    with pytest.raises(CorruptLogError, match="expected offset 1, found offset 3"):
        read(tmp_path)
    snapshot(tmp_path, 3, topic("t"))
    assert overrides(read(tmp_path)) == {"t": {"cleanup.policy": "compact"}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([remove_topic()], "a removal of topic id"),
        ([partition(0)], "a partition of topic id"),
        ([topic("t"), topic("t", ID_B)], "topic t is created"),
        ([topic("t"), topic("u")], "topic u is created"),
        ([end()], "a transaction ends"),
        ([abort()], "a transaction ends"),
        ([begin(), begin()], "a transaction begins"),
        ([broker_config("one", "x", "y")], "a setting of broker 'one'"),
        ([framed(4, b"", version=1)], "ConfigRecord has a version"),
        ([framed(4, b"")], "ConfigRecord can't be read"),
    ],
)
def test_malformed_record_is_an_error_with_its_position(
    tmp_path: Path, values: list[bytes], message: str
) -> None:
    with pytest.raises(CorruptLogError, match=rf"{message}.*\(.*0\.log at byte \d+"):
        of_log(tmp_path, no_op(), *values)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 100,
        batch(0, topic("t"))[:-1],
        batch(0, topic("t"))[:-1] + b"x",
        bytes(8) + (22).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(20),
        b"",
    ],
)
def test_log_without_a_whole_batch_is_an_error(tmp_path: Path, data: bytes) -> None:
    segment(tmp_path, 0, data)
    with pytest.raises(CorruptLogError, match="empty"):
        read(tmp_path)


def test_log_of_an_old_format_is_an_error(tmp_path: Path) -> None:
    segment(tmp_path, 0, entry(0, 1, None, topic("t")))
    with pytest.raises(CorruptLogError, match=r"expected magic 2, found magic 1"):
        read(tmp_path)


@pytest.mark.parametrize(
    "tail",
    [
        b"\x00",
        bytes(5000),
        batch(2, COMPACT)[:-1],
        batch(2, COMPACT)[:30] + bytes(500),
        batch(2, COMPACT)[:-4] + bytes(4),
    ],
    ids=[
        "a byte",
        "preallocated zeros",
        "a batch cut off",
        "a batch cut off in zeros",
        "a batch with a wrong CRC",
    ],
)
def test_torn_end_is_ignored_with_a_note(tmp_path: Path, tail: bytes) -> None:
    whole = log(tmp_path, topic("t")).read_bytes()
    segment(tmp_path, 0, whole, tail)
    found = read(tmp_path)
    assert (set(found.topics), overrides(found), found.end_offset) == ({"t"}, {}, 2)
    (note,) = found.notes
    assert f"{len(tail)} bytes that are not a whole batch, from byte {len(whole)} on" in note
    assert "up to offset 1" in note


def test_damage_before_a_whole_batch_is_an_error(tmp_path: Path) -> None:
    damaged = bytearray(batch(0, topic("t")))
    damaged[-3] ^= 1
    segment(tmp_path, 0, bytes(damaged), batch(1, COMPACT))
    with pytest.raises(CorruptLogError, match="wrong CRC"):
        read(tmp_path)


def test_after_an_unclean_shutdown_the_log_ends_at_the_first_damage(tmp_path: Path) -> None:
    whole = batch(0, topic("t"))
    lost = bytes(len(batch(1, COMPACT)))
    segment(tmp_path, 0, whole, lost, batch(2, COMPACT))
    with pytest.raises(CorruptLogError):
        read(tmp_path)
    found = read_cluster_metadata(LocalStorage(), str(tmp_path), unclean=True)
    assert (set(found.topics), overrides(found), found.end_offset) == ({"t"}, {}, 1)
    (note,) = found.notes
    assert f"damaged in bytes {len(whole)} to {len(whole) + len(lost)}" in note
    assert "Settings that changed after it are unknown here" in note


def test_only_the_last_segment_may_have_a_torn_end(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic("t")), bytes(100))
    segment(tmp_path, 1, batch(1, COMPACT))
    with pytest.raises(CorruptLogError):
        read(tmp_path)


def test_first_damage_of_a_segment_is_reported(tmp_path: Path) -> None:
    damaged = bytearray(batch(0, topic("t")))
    damaged[-3] ^= 1
    segment(tmp_path, 0, bytes(damaged), batch(1, COMPACT)[:-1])
    segment(tmp_path, 2, batch(2, COMPACT))
    with pytest.raises(CorruptLogError, match="wrong CRC"):
        read(tmp_path)


def test_changed_byte_gives_the_same_result_or_an_error(tmp_path: Path) -> None:
    """Neither a checksum nor the order of offsets covers the leader epoch of a batch."""
    whole = (RECORDED / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    sound = read(RECORDED / "__cluster_metadata-0")
    last_base = int(batches_of(as_bytes(whole), "log", 0)["base_offset"][-1])
    rng = random.Random(98)
    errors = 0
    for _ in range(120):
        at = rng.randrange(len(whole))
        (tmp_path / f"{0:020d}.log").write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        )
        try:
            found = read(tmp_path)
        except CorruptLogError:
            errors += 1
            continue
        if found.notes:  # the last batch is incomplete now, and no earlier one is ever ignored
            assert found.end_offset == last_base, at
            continue
        assert (found.topics, found.configs, found.end_offset) == (
            *(sound.topics, sound.configs),
            sound.end_offset,
        )
    assert errors > 90


def test_truncated_log_ends_with_its_last_whole_batch(tmp_path: Path) -> None:
    whole = log(tmp_path, topic("t"), COMPACT).read_bytes()
    second = len(whole) - len(batch(2, COMPACT))
    first = second - len(batch(1, topic("t")))
    for size in range(first, len(whole)):
        segment(tmp_path, 0, whole[:size])
        found = read(tmp_path)
        assert found.end_offset == (1 if size < second else 2)
        assert bool(found.notes) == (size not in {first, second})


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_sparse_file_does_not_fill_the_memory(tmp_path: Path, kind: str) -> None:
    log(tmp_path, topic("t"), COMPACT, base=0)
    sparse = segment(tmp_path, 3, batch(3, no_op())) if kind == "log" else snapshot(tmp_path, 3)
    size = 256 * 2**20
    os.truncate(sparse, size)
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    used = int(status.partition("VmData:")[2].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + size // 2, limits[1]))
    try:
        metadata = read(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)
    assert overrides(metadata) == {"t": {"cleanup.policy": "compact"}}
    assert len(metadata.notes) == 1


def test_metadata_log_of_two_gib_is_refused(tmp_path: Path) -> None:
    path = log(tmp_path, topic("t"))
    os.truncate(path, 2**31)
    with pytest.raises(CorruptLogError, match="too large for its kind") as raised:
        read(tmp_path)
    assert (raised.value.expected, raised.value.found, raised.value.where) == (
        f"at most {2**31 - 1} bytes",
        f"{2**31} bytes",
        str(path),
    )
