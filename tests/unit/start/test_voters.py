"""A quorum whose voters are in the metadata log (KIP-853): a voter is a node together with the
`directory.id` of its metadata log. A real broker judges the same state in
`tests/kafka/broker/test_dynamic_quorum.py`.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.logdir.metadata_logs import read
from tests.unit.start.quorums import make_nodes, starts_of
from tests.unit.wire.metadata_values import string, uvarint
from winnow.errors import CorruptLogError
from winnow.logdir.meta import read_meta
from winnow.logdir.metadata import METADATA_DIR
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.start.values import Fate
from winnow.storage.places import Places
from winnow.wire.control import ControlType, read_quorum_record
from winnow.wire.plain import Record

OTHER = "Zm9vYmFyYmF6cXV4MTIzNA"
VOTERS = struct.pack(">hh", 0, ControlType.KRAFT_VOTERS)
STATE = (
    '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
    '"data_version":1}'
)


def voters_record(keys: Mapping[int, str]) -> bytes:
    value = b"\x00\x00" + uvarint(len(keys) + 1)
    for node, directory_id in keys.items():
        value += struct.pack(">i", node) + urlsafe_b64decode(f"{directory_id}==")
        value += uvarint(2) + string("CONTROLLER") + string("localhost") + b"\x23\x84\x00"
        value += struct.pack(">hh", 0, 1) + b"\x00\x00"
    return value + b"\x00"


def with_voters(nodes: Sequence[Path], keys: Mapping[int, str]) -> None:
    for path in nodes:
        directory = path / METADATA_DIR
        (directory / "quorum-state").write_text(STATE)
        append_control(path, VOTERS, voters_record(keys))


def append_control(node: Path, key: bytes, value: bytes) -> None:
    directory = node / METADATA_DIR
    end = read(directory).end
    record = Record(end.offset, 0, key, value)
    with (directory / f"{0:020d}.log").open("ab") as log:
        log.write(encode_batch([record], control=True, leader_epoch=end.epoch))


def directory_ids(nodes: Sequence[Path]) -> dict[int, str]:
    found = (read_meta(Places(), str(path)).directory_id for path in nodes)
    return {node: one for node, one in enumerate(found, start=1) if one is not None}


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    return make_nodes(tmp_path)


def test_voters_are_those_of_the_last_record(nodes: list[Path]) -> None:
    assert read(nodes[0] / METADATA_DIR).voters == {}
    with_voters(nodes[:1], {1: OTHER})
    with_voters(nodes[:1], directory_ids(nodes))
    assert read(nodes[0] / METADATA_DIR).voters == directory_ids(nodes)


def test_voter_starts(nodes: list[Path]) -> None:
    with_voters(nodes, directory_ids(nodes))
    assert all(start.is_safe and not start.reasons for start in starts_of(nodes))


def test_sole_voter_with_another_directory_id_does_not_start(nodes: list[Path]) -> None:
    with_voters(nodes[:1], {1: OTHER})
    [start] = starts_of(nodes[:1])
    assert start.fate is Fate.STOPS
    assert f"names node 1 with the directory.id {OTHER} as a voter" in start.reasons[0]


def test_voter_with_another_directory_id_needs_the_other_voters(
    nodes: list[Path],
) -> None:
    with_voters(nodes, directory_ids(nodes) | {1: OTHER})
    first, second, third = starts_of(nodes)
    assert (first.fate, second.fate, third.fate) == (Fate.UNKNOWN, Fate.LOADS, Fate.LOADS)
    assert first.needs_quorum


@pytest.mark.parametrize("size", [0, 3, 20, 60])
def test_torn_record_of_voters_is_an_error(size: int) -> None:
    with pytest.raises(CorruptLogError):
        read_quorum_record(VOTERS, voters_record({1: OTHER, 2: OTHER})[:size])


@pytest.mark.parametrize("count", [uvarint(0), b"\xff\xff\xff\xff\x07"])
def test_null_or_wild_count_of_voters_is_an_error(count: bytes) -> None:
    with pytest.raises(CorruptLogError, match="a count that the value has room for"):
        read_quorum_record(VOTERS, b"\x00\x00" + count)


def test_node_does_not_start_with_a_control_record_that_it_cannot_read(nodes: list[Path]) -> None:
    append_control(nodes[0], VOTERS, b"\x00\x00\x00\x00")
    [start] = starts_of(nodes[:1])
    assert start.fate is Fate.STOPS
    assert "expected a count that the value has room for, found null" in start.reasons[0]


def test_quorum_that_can_change_has_voters(nodes: list[Path]) -> None:
    append_control(nodes[0], struct.pack(">hh", 0, ControlType.KRAFT_VERSION), b"\0\0\0\x01\0")
    [start] = starts_of(nodes[:1])
    assert start.fate is Fate.STOPS
    assert "has kraft.version 1 and no voters" in start.reasons[0]


def test_voters_of_the_metadata_log_count_above_those_of_server_properties(
    nodes: list[Path],
) -> None:
    """Such a setting is often left behind when a quorum is made one that can change."""
    with_voters(nodes, directory_ids(nodes))
    text = f"node.id=1\nlog.dirs={nodes[0]}\ncontroller.quorum.voters=1@localhost:9093\n"
    [start] = starts_of(nodes[:1], Settings(server_properties=[parse_server_properties(text)]))
    assert "other nodes vote in its quorum" in start.caveat
