"""Advice goes by place: a directory may only be deleted where another copy is known to exist."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.spark.damage import Log
from tests.spark.runs import add_partition, new_log_dir
from tests.unit.cleaning.sweeps import findings
from tests.unit.logdir.metadata_logs import log
from tests.unit.wire.metadata_values import ID_A, framed, topic, uvarint
from winnow.advice import Copies
from winnow.logdir.metadata import METADATA_DIR
from winnow.storage.local import LocalStorage
from winnow.verbs.verify.copies import with_copies
from winnow.verbs.verify.findings import Finding

NAME = "c-4p-1"
DELETES = "delete the directory"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """One with a wrong CRC in a partition."""
    home = new_log_dir(tmp_path / "log-dir")
    add_partition(home, NAME, NAME)
    damaged = Log(home / NAME, 0)
    damaged.data[-1] ^= 1
    damaged.write()
    (home / METADATA_DIR).mkdir()
    return home


def nodes(ids: tuple[int, ...]) -> bytes:
    return uvarint(len(ids) + 1) + b"".join(node.to_bytes(4, "big") for node in ids)


def in_sync_of(*ids: int) -> bytes:
    """Return a change of the replicas in sync."""
    tagged = uvarint(1) + uvarint(0) + uvarint(len(nodes(ids))) + nodes(ids)
    return framed(5, (1).to_bytes(4, "big") + ID_A + tagged)


def partition(replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> bytes:
    fixed = bytes(3 * 4)  # leader, leader epoch, partition epoch
    body = (1).to_bytes(4, "big") + ID_A + nodes(replicas) + nodes(in_sync)
    return framed(3, body + nodes(()) + nodes(()) + fixed + b"\x00")


def advised(log_dir: Path) -> Finding:
    [found] = with_copies(LocalStorage(), findings(log_dir), [str(log_dir)])
    return found


@pytest.mark.parametrize(
    ("replicas", "in_sync", "copies", "words"),
    [
        ((1,), (1,), Copies.NONE, "No other node has a replica: keep its directory"),
        ((1, 2, 3), (1, 2), Copies.OTHERS, "stop this broker and delete the directory"),
        ((1, 2, 3), (2, 3), Copies.OTHERS, "stop this broker and delete the directory"),
        ((1, 2, 3), (1,), Copies.BEHIND, "this one has records that they lack"),
        ((1, 2, 3), (), Copies.UNKNOWN, "If none has it, keep its directory"),
        ((2, 3), (2, 3), Copies.UNKNOWN, "If none has it, keep its directory"),
    ],
)
def test_advice_knows_the_replicas(
    log_dir: Path,
    replicas: tuple[int, ...],
    in_sync: tuple[int, ...],
    copies: Copies,
    words: str,
) -> None:
    log(log_dir / METADATA_DIR, topic("c-4p"), partition(replicas, in_sync))
    found = advised(log_dir)
    assert (found.kind, found.copies) == ("crc", copies)
    assert words in found.meaning
    assert (DELETES in found.meaning) == (copies is Copies.OTHERS)


def test_later_changes_of_the_replicas_in_sync_count(log_dir: Path) -> None:
    values = topic("c-4p"), partition((1, 2), (1, 2))
    log(log_dir / METADATA_DIR, *values, in_sync_of(1))
    assert advised(log_dir).copies is Copies.BEHIND
    log(log_dir / METADATA_DIR, *values, in_sync_of(1), in_sync_of(1, 2))
    assert advised(log_dir).copies is Copies.OTHERS


def test_nothing_is_known_without_a_metadata_log_that_the_broker_uses(log_dir: Path) -> None:
    (log_dir / METADATA_DIR).rmdir()
    assert advised(log_dir).copies is Copies.UNKNOWN
    (log_dir / METADATA_DIR).mkdir()
    log(log_dir / METADATA_DIR, topic("c-4p"), partition((1, 2), (1, 2)))
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n")
    found = advised(log_dir)
    assert found.copies is Copies.UNKNOWN
    assert DELETES not in found.meaning


@pytest.mark.parametrize(
    ("voters", "copies", "words"),
    [
        ([1], Copies.NONE, "only voter of its quorum"),
        ([1, 2, 3], Copies.OTHERS, "start this node only while a majority of the voters runs"),
        (None, Copies.UNKNOWN, "if the quorum has other voters"),
    ],
)
def test_metadata_log_is_never_deleted(
    log_dir: Path, voters: list[int] | None, copies: Copies, words: str
) -> None:
    shutil.rmtree(log_dir / NAME)
    path = log(log_dir / METADATA_DIR, topic("c-4p"), partition((1,), (1,)), topic("d", b"d" * 16))
    data = bytearray(path.read_bytes())
    data[-150] ^= 1
    path.write_bytes(data)
    state = {"data_version": 0 if voters else 1}
    if voters:
        state |= {"currentVoters": [{"voterId": voter} for voter in voters]}
    (log_dir / METADATA_DIR / "quorum-state").write_text(json.dumps(state))
    found = advised(log_dir)
    assert (found.topic, found.kind, found.copies) == ("__cluster_metadata", "crc", copies)
    assert words in found.meaning
    assert "Never delete __cluster_metadata-0" in found.meaning
    assert DELETES not in found.meaning
