"""Read topics and settings from snapshots and segments of a metadata log (S9.3; case 98 of the
semantics).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, partition_dirs, unpacked
from tests.unit.logdir.metadata_logs import (
    COMPACT,
    batch,
    log,
    of_log,
    overrides,
    read,
    segment,
    snapshot,
)
from tests.unit.wire.metadata_values import (
    ID_A,
    ID_B,
    abort,
    begin,
    broker_config,
    config,
    end,
    feature,
    no_op,
    partition,
    remove_topic,
    replicas_of,
    topic,
)
from winnow.errors import CorruptLogError
from winnow.logdir.meta import read_topic_id
from winnow.policy.known_version import METADATA_VERSION
from winnow.state import ALL_BROKERS, Reassignment
from winnow.storage.local import LocalStorage
from winnow.wire.batch import Codec
from winnow.wire.metadata_records import uuid_text

STORAGE = LocalStorage()
RECORDED = unpacked("before-clean") / "clean"


def test_recorded_log_gives_the_same_settings_as_the_broker() -> None:
    metadata = read(RECORDED / "__cluster_metadata-0")
    lines = sorted(
        f"{name} {k}={v}"
        for name, configs in overrides(metadata).items()
        for k, v in configs.items()
    )
    assert lines == TOPIC_CONFIGS.read_text().splitlines()
    assert metadata.end_offset == 484
    assert metadata.features[METADATA_VERSION] == 30
    assert metadata.configs["topic", "c-none"]["cleanup.policy"][1].startswith(
        "__cluster_metadata-0 offset "
    )
    found = {
        f"{name}-{p}": t.topic_id for name, t in metadata.topics.items() for p in t.replicas
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
    assert metadata.configs["topic", "t"]["retention.ms"][1] == "__cluster_metadata-0 offset 4"
    assert (metadata.end_offset, metadata.notes) == (5, ())
    assert set(metadata.topics["t"].replicas) == {0}


def test_null_and_topic_removal_delete_settings(tmp_path: Path) -> None:
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
    assert set(metadata.topics["t"].replicas) == {0}


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
    assert {n: {k: text for k, (text, _) in c.items()} for n, c in metadata.configs.items()} == {
        ALL_BROKERS: {"log.retention.ms": "1"},
        ("broker", "7"): {"log.retention.ms": "2"},
    }
    assert metadata.features[METADATA_VERSION] == 25


def test_config_of_another_spelling_of_a_broker_id_is_not_of_that_broker(tmp_path: Path) -> None:
    """A broker looks for the text of its id."""
    metadata = of_log(tmp_path, broker_config("01", "log.retention.ms", "1"))
    assert ("broker", "1") not in metadata.configs


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
    assert {k: where for k, (_, where) in metadata.configs["topic", "t"].items()} == {
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


def test_log_may_begin_at_its_snapshot_and_does_not_end_below_it(tmp_path: Path) -> None:
    """A broker whose log has lost its end goes on with the settings of the snapshot, and deletes
    what a later setting keeps.
    """
    segment(tmp_path, 9)
    snapshot(tmp_path, 9, topic("t"), COMPACT)
    assert read(tmp_path).end_offset == 9
    (tmp_path / f"{9:020d}.log").unlink()
    with pytest.raises(CorruptLogError, match="ends below its newest snapshot"):
        read(tmp_path)
    log(tmp_path, no_op())
    with pytest.raises(CorruptLogError, match="expected offset 9 or more, found offset 2"):
        read(tmp_path)


def test_snapshot_without_records_is_read(tmp_path: Path) -> None:
    """A controller with a dynamic quorum writes one when it is formatted."""
    snapshot(tmp_path, 0)
    assert set(of_log(tmp_path, topic("t")).topics) == {"t"}


def test_newer_partition_record_is_noted_and_its_ids_are_read(tmp_path: Path) -> None:
    found = of_log(tmp_path, topic("t"), partition(0, version=3), partition(1, version=3))
    assert set(found.topics["t"].replicas) == {0, 1}
    assert found.notes == (
        (
            "__cluster_metadata-0 has a PartitionRecord of version 3, which is newer than this "
            "Winnow: it is read as far as it is known"
        ),
    )


def test_replicas_are_those_of_the_last_record_that_has_them(tmp_path: Path) -> None:
    found = of_log(
        tmp_path,
        topic("t"),
        *(partition(number) for number in range(3)),
        partition(3, version=3),
        replicas_of(0, 3, 2),
        replicas_of(0),
        replicas_of(1, 4, version=2),
        replicas_of(2, 5, version=3),
    )
    assert found.topics["t"].replicas == {
        0: {2, 3},
        1: {4},
        2: {1},
        3: frozenset(),
    }
    assert [note.partition(" has a ")[2].partition(",")[0] for note in found.notes] == [
        "PartitionChangeRecord of version 3",
        "PartitionRecord of version 3",
    ]


def test_directories_are_those_of_the_last_record_that_has_them(tmp_path: Path) -> None:
    """A change of the replicas brings their directories. An assignment (AssignReplicasToDirs) has
    only directories, in the order of the replicas.
    """
    one, two, unassigned = bytes([1] * 16), bytes([2] * 16), bytes(16)
    found = of_log(
        tmp_path,
        topic("t"),
        *(partition(number, directory=one) for number in range(3)),
        partition(3, directory=unassigned),
        partition(4, version=0),
        replicas_of(1, 3, 2, directories=[one, two], version=1),
        replicas_of(1, directories=[two, unassigned], version=1),
        replicas_of(2, 4),
        replicas_of(0),
    )
    assert found.topics["t"].directories == {
        0: {1: uuid_text(one)},
        1: {3: uuid_text(two)},
        3: {},
    }


def test_reassignment_lasts_until_a_record_ends_it(tmp_path: Path) -> None:
    """As a controller writes it: the begin has what is removed and added, a later change of the ISR
    has neither, and the end has two empty lists.
    """
    begin = {"removing": [1], "adding": [3]}
    found = of_log(
        tmp_path,
        topic("t"),
        *(partition(number) for number in range(3)),
        *(replicas_of(number, 3, 1, **begin) for number in range(2)),
        *(replicas_of(number, in_sync=[1, 3]) for number in range(2)),
        replicas_of(1, 3, in_sync=[3], removing=[], adding=[]),
    )
    assert found.topics["t"].reassigned == {0: Reassignment((1,), (3,))}
    assert found.topics["t"].replicas == {0: {1, 3}, 1: {3}, 2: {1}}


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
