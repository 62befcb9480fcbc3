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
from winnow.logdir.metadata_log import read_voters
from winnow.start.values import Fate
from winnow.storage.places import Places
from winnow.wire.control import ControlType, voters
from winnow.wire.plain import Record

OTHER = "Zm9vYmFyYmF6cXV4MTIzNA"
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
        end = read(directory).end
        key = struct.pack(">hh", 0, ControlType.KRAFT_VOTERS)
        record = Record(end.offset, 0, key, voters_record(keys))
        with (directory / f"{0:020d}.log").open("ab") as log:
            log.write(encode_batch([record], control=True, leader_epoch=end.epoch))


def directory_ids(nodes: Sequence[Path]) -> dict[int, str]:
    found = (read_meta(Places(), str(path)).directory_id for path in nodes)
    return {node: one for node, one in enumerate(found, start=1) if one is not None}


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    return make_nodes(tmp_path)


def test_voters_are_those_of_the_last_record(nodes: list[Path]) -> None:
    assert read_voters(Places(), str(nodes[0] / METADATA_DIR)) == {}
    with_voters(nodes[:1], {1: OTHER})
    with_voters(nodes[:1], directory_ids(nodes))
    assert read_voters(Places(), str(nodes[0] / METADATA_DIR)) == directory_ids(nodes)


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
        voters(voters_record({1: OTHER, 2: OTHER})[:size])
