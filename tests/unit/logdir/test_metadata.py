"""Read topics and settings from snapshots and segments of a metadata log (S9.3; case 98 of the
semantics).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, partition_dirs, unpacked
from tests.unit.logdir.metadata_logs import FOOTER, HEADER, batch, control, log, segment, snapshot
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.metadata_values import (
    ID_A,
    ID_B,
    abort,
    begin,
    broker_config,
    config,
    end,
    feature,
    framed,
    no_op,
    partition,
    remove_topic,
    topic,
)
from winnow.errors import CorruptLogError
from winnow.logdir.metadata import ClusterMetadata, read_cluster_metadata
from winnow.logdir.partition_metadata import read_topic_id
from winnow.scan.chunks import batches_of
from winnow.storage.local import LocalStorage
from winnow.wire.batch import Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.metadata_records import uuid_text

STORAGE = LocalStorage()
COMPACT = config("t", "cleanup.policy", "compact")
RECORDED = unpacked("before-clean") / "clean"


def read(directory: Path) -> ClusterMetadata:
    return read_cluster_metadata(STORAGE, str(directory))


def overrides(metadata: ClusterMetadata) -> dict[str, dict[str, str]]:
    return {
        name: {key: c.value for key, c in configs.items()}
        for name, configs in metadata.topic_configs.items()
    }


def of_log(directory: Path, *values: bytes) -> ClusterMetadata:
    log(directory, *values)
    return read(directory)


def test_recorded_log_gives_the_same_settings_as_the_broker() -> None:
    metadata = read(RECORDED / "__cluster_metadata-0")
    lines = sorted(
        f"{name} {k}={v}"
        for name, configs in overrides(metadata).items()
        for k, v in configs.items()
    )
    assert lines == TOPIC_CONFIGS.read_text().splitlines()
    assert metadata.end_offset == 484
    assert metadata.metadata_version == 30
    assert metadata.topic_configs["c-none"]["cleanup.policy"].where.startswith(
        "__cluster_metadata-0 offset "
    )
    found = {
        f"{t.name}-{p}": t.topic_id for t in metadata.topics.values() for p in t.partitions
    }  # fmt: skip
    assert found == {d.name: read_topic_id(STORAGE, str(d)) for d in partition_dirs(RECORDED)}


def test_last_value_applies_and_has_its_position(tmp_path: Path) -> None:
    metadata = of_log(
        tmp_path,
        topic("t"),
        partition(0),
        config("t", "retention.ms", "1"),
        config("t", "retention.ms", "2"),
    )
    assert overrides(metadata) == {"t": {"retention.ms": "2"}}
    assert metadata.topic_configs["t"]["retention.ms"].where == "__cluster_metadata-0 offset 4"
    assert (metadata.end_offset, metadata.notes) == (5, ())
    assert metadata.topics["t"].partitions == {0}


def test_null_and_topic_removal_delete_settings(
    tmp_path: Path,
) -> None:
    metadata = of_log(
        tmp_path,
        *(topic("t"), COMPACT, config("t", "retention.ms", "1"), config("t", "retention.ms", None)),
        *(topic("u", ID_B), config("u", "cleanup.policy", "compact"), remove_topic(ID_B)),
    )
    assert overrides(metadata) == {"t": {"cleanup.policy": "compact"}}
    assert set(metadata.topics) == {"t"}


def test_recreated_topic_has_a_new_id_and_no_old_settings(tmp_path: Path) -> None:
    metadata = of_log(
        tmp_path,
        *(
            topic("t"),
            partition(0),
            partition(1),
            COMPACT,
            remove_topic(),
            topic("t", ID_B),
            partition(0, ID_B),
        ),
        config("t", "retention.ms", "5"),
    )
    assert overrides(metadata) == {"t": {"retention.ms": "5"}}
    assert metadata.topics["t"].topic_id == uuid_text(ID_B)
    assert metadata.topics["t"].partitions == {0}


def test_only_ended_transactions_are_applied(tmp_path: Path) -> None:
    metadata = of_log(
        tmp_path,
        *(begin(), topic("t"), COMPACT, end()),
        *(begin(None), config("t", "cleanup.policy", "delete"), remove_topic(), abort()),
        *(config("t", "retention.ms", "7"), begin(), no_op(), config("t", "retention.ms", "8")),
    )
    assert overrides(metadata) == {"t": {"cleanup.policy": "compact", "retention.ms": "7"}}
    assert len(metadata.notes) == 1
    assert "ends inside a transaction" in metadata.notes[0]


def test_broker_configs_are_read_per_broker_and_for_all(tmp_path: Path) -> None:
    metadata = of_log(
        tmp_path,
        *(broker_config("", "log.retention.ms", "1"), broker_config("7", "log.retention.ms", "2")),
        *(
            broker_config("8", "log.retention.ms", "3"),
            broker_config("8", "log.retention.ms", None),
        ),
        *(config("7", "org.apache.kafka", "DEBUG", kind=8), config("g", "x", "y", kind=32)),
        *(
            config("m", "metrics", "*", kind=16),
            feature("metadata.version", 25),
            feature("group.version", 1),
        ),
    )
    assert {k: v.value for k, v in metadata.all_brokers.items()} == {"log.retention.ms": "1"}
    assert {n: {k: v.value for k, v in c.items()} for n, c in metadata.broker_configs.items()} == {
        7: {"log.retention.ms": "2"}
    }
    assert (metadata.topic_configs, metadata.metadata_version) == ({}, 25)


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_any_codec_are_read(tmp_path: Path, codec: Codec) -> None:
    log(tmp_path, topic("t"), COMPACT, codec=codec)
    assert overrides(read(tmp_path)) == {"t": {"cleanup.policy": "compact"}}


def test_log_is_applied_from_the_snapshot_end_on(tmp_path: Path) -> None:
    """The first segment begins before the snapshot's end. Records before it must not be applied
    twice.
    """
    log(
        tmp_path,
        topic("old"),
        remove_topic(),
        topic("t"),
        COMPACT,
        config("t", "retention.ms", "6"),
    )
    log(tmp_path, config("t", "segment.bytes", "7"), base=6)
    snapshot(tmp_path, 5, topic("t"), COMPACT)
    metadata = read(tmp_path)
    assert overrides(metadata) == {
        "t": {"cleanup.policy": "compact", "retention.ms": "6", "segment.bytes": "7"}
    }
    assert {k: c.where for k, c in metadata.topic_configs["t"].items()} == {
        "cleanup.policy": "__cluster_metadata-0 snapshot 5",
        "retention.ms": "__cluster_metadata-0 offset 5",
        "segment.bytes": "__cluster_metadata-0 offset 6",
    }
    assert metadata.end_offset == 7


def test_batch_across_the_snapshot_end_is_applied_in_part(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic("t"), COMPACT, config("t", "retention.ms", "6")))
    snapshot(tmp_path, 2, topic("t"), config("t", "cleanup.policy", "from the snapshot"))
    assert overrides(read(tmp_path)) == {
        "t": {"cleanup.policy": "from the snapshot", "retention.ms": "6"}
    }


def test_segments_below_the_snapshot_are_skipped(tmp_path: Path) -> None:
    segment(tmp_path, 0, b"not a batch")
    log(tmp_path, config("t", "retention.ms", "6"), base=5)
    snapshot(tmp_path, 5, topic("t"))
    assert overrides(read(tmp_path)) == {"t": {"retention.ms": "6"}}


def test_log_may_begin_at_its_snapshot_or_end_below_it(tmp_path: Path) -> None:
    segment(tmp_path, 9)
    snapshot(tmp_path, 9, topic("t"), COMPACT)
    assert read(tmp_path).end_offset == 9
    (tmp_path / f"{9:020d}.log").unlink()
    log(tmp_path, no_op())
    assert (read(tmp_path).end_offset, overrides(read(tmp_path))) == (
        9,
        {"t": {"cleanup.policy": "compact"}},
    )


def test_snapshot_without_records_is_read(tmp_path: Path) -> None:
    """A controller with a dynamic quorum writes one when it is formatted."""
    snapshot(tmp_path, 0)
    assert set(of_log(tmp_path, topic("t")).topics) == {"t"}


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


def test_incomplete_snapshot_without_earlier_records_is_an_error(
    tmp_path: Path,
) -> None:
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
    found = read_cluster_metadata(STORAGE, str(tmp_path), unclean=True)
    assert (set(found.topics), overrides(found), found.end_offset) == ({"t"}, {}, 1)
    (note,) = found.notes
    assert f"damaged in bytes {len(whole)} to {len(whole) + len(lost)}" in note
    assert "Settings that changed after it are unknown here" in note


def test_only_the_last_segment_may_have_a_torn_end(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, topic("t")), bytes(100))
    segment(tmp_path, 1, batch(1, COMPACT))
    with pytest.raises(CorruptLogError):
        read(tmp_path)


def test_newer_partition_record_is_noted_and_its_ids_are_read(tmp_path: Path) -> None:
    found = of_log(tmp_path, topic("t"), partition(0, version=3), partition(1, version=3))
    assert found.topics["t"].partitions == {0, 1}
    assert found.notes == (
        (
            "__cluster_metadata-0 has a PartitionRecord of version 3, which is newer than this "
            "Winnow: it is read as far as it is known"
        ),
    )


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
        assert (found.topics, found.topic_configs, found.end_offset) == (
            *(sound.topics, sound.topic_configs),
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


def test_uuid_text_is_in_kafkas_format() -> None:
    assert uuid_text(ID_A) == "AAECAwQFBgcICQoLDA0ODw"


REGISTRATIONS = {
    0: "0000000000070000000000000001000000000000000200000000000000630302500268238400000002510269"
    "ffff00030003116d657461646174612e76657273696f6e0001000e000e6b726166742e76657273696f6e00000001"
    "0002720100",
    1: "0001000000070000000000000001000000000000000200000000000000630302500268238400000002510269"
    "ffff00030003116d657461646174612e76657273696f6e0001000e000e6b726166742e76657273696f6e00000001"
    "000272010000",
    2: "000200000007010000000000000001000000000000000200000000000000630302500268238400000002510269"
    "ffff00030003116d657461646174612e76657273696f6e0001000e000e6b726166742e76657273696f6e00000001"
    "000272010000",
    4: "000400000007010000000000000001000000000000000200000000000000630302500268238400000002510269"
    "ffff00030003116d657461646174612e76657273696f6e0001000e000e6b726166742e76657273696f6e00000001"
    "00027201000100110200000000000000030000000000000004",
}
"""Version -> a registration with a version before it, as `MessageUtil` of Kafka 4.4.0 writes it."""


@pytest.mark.parametrize("version", REGISTRATIONS)
def test_registration_of_a_broker_tells_what_it_supports(tmp_path: Path, version: int) -> None:
    fields = bytes.fromhex(REGISTRATIONS[version])[2:]
    found = of_log(tmp_path, bytes([1, 0, version]) + fields)
    assert found.supported == {7: {"metadata.version": 14, "kraft.version": 1}}
    assert found.notes == ()


def test_newer_registration_and_unknown_kind_are_noted_and_left_out(tmp_path: Path) -> None:
    found = of_log(tmp_path, topic("t"), bytes([1, 0, 9, 1, 2]), bytes([1, 30, 0, 1, 2]))
    assert (set(found.topics), found.supported) == ({"t"}, {})
    assert [note.partition(",")[0] for note in found.notes] == [
        "__cluster_metadata-0 has a RegisterBrokerRecord of version 9",
        "__cluster_metadata-0 has a record of kind 30",
    ]


def test_record_that_removes_a_controller_is_known(tmp_path: Path) -> None:
    assert of_log(tmp_path, topic("t"), bytes([1, 29, 0, 1, 2])).notes == ()
