"""The check of what consumers got notices each kind of loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kafka.dead_broker.load import Acks, Partition, Seen, read_acks, read_partitions

ACKS = """\
a plain 0 0 1000 k1 aaaa none
a plain 0 1 2000 k2 bbbb none
a plain 0 2 3000 k1 cccc none
a plain 0 3 3000 k3 - none
a txn 0 0 1000 k1 aaaa 0
a txn 0 2 1000 k1 bbbb 1
a txn 0 4 1000 k1 cccc 2
a txn 0 5 1000 k9 dddd open
c txn 0
x txn 1
"""
READ = """\
p plain 0 0 4
r plain 0 0 1000 k1 aaaa
r plain 0 1 2000 k2 bbbb
r plain 0 2 3000 k1 cccc
r plain 0 3 3000 k3 -
p txn 0 0 6
r txn 0 0 1000 k1 aaaa
r txn 0 2 1000 k1 bbbb
r txn 0 4 1000 k1 cccc
r txn 0 5 1000 k9 dddd
"""


@pytest.fixture
def acks(tmp_path: Path) -> Acks:
    (tmp_path / "acks").write_text(ACKS)
    return read_acks(tmp_path / "acks")


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Partition]:
    (tmp_path / "read").write_text(READ)
    return read_partitions(tmp_path / "read")


def problems(
    acks: Acks, found: Partition, policy: str, *, name: str = "plain-0", committed: bool = False
) -> int:
    return len(acks.problems(name, found, policy=policy, kept_from=2000, committed_only=committed))


def without(found: Partition, *offsets: int, begin: int = 0) -> Partition:
    kept = {offset: one for offset, one in found.records.items() if offset not in offsets}
    return replace(found, begin=begin, records=kept)


def test_all_that_was_acknowledged_is_enough(acks: Acks, found: dict[str, Partition]) -> None:
    for policy in ("delete", "compact", "compact,delete"):
        assert problems(acks, found["plain-0"], policy) == 0


def test_retention_may_take_old_records_only(acks: Acks, found: dict[str, Partition]) -> None:
    plain = found["plain-0"]
    assert problems(acks, without(plain, 0, begin=1), "delete") == 0
    assert problems(acks, without(plain, 0, 1, begin=2), "delete") == 1
    assert problems(acks, without(plain, 0, begin=1), "compact") == 1


def test_hole_is_a_loss_unless_topic_is_compacted(acks: Acks, found: dict[str, Partition]) -> None:
    plain = found["plain-0"]
    assert problems(acks, without(plain, 0), "delete") == 1
    assert problems(acks, without(plain, 0), "compact") == 0


def test_newest_record_of_each_key_has_to_be_there(acks: Acks, found: dict[str, Partition]) -> None:
    plain = found["plain-0"]
    assert problems(acks, without(plain, 2), "compact") == 1
    assert problems(acks, without(plain, 1), "compact") == 1
    assert problems(acks, without(plain, 3), "compact") == 0, "a tombstone may go"
    later = Partition(0, 5, without(plain, 2).records | {4: Seen(4, 4000, "k1", "eeee")})
    assert problems(acks, later, "compact") == 0, "one that was written and not acknowledged"


def test_other_bytes_are_a_loss(acks: Acks, found: dict[str, Partition]) -> None:
    plain = found["plain-0"]
    other = Partition(0, 4, plain.records | {1: Seen(1, 2000, "k2", "ffff")})
    assert problems(acks, other, "delete") == problems(acks, other, "compact") == 1


def test_committed_records_have_to_be_there_and_aborted_ones_not(
    acks: Acks, found: dict[str, Partition]
) -> None:
    txn = found["txn-0"]
    assert (acks.aborted["txn-0"], acks.undecided["txn-0"]) == ({2}, {4, 5})
    for policy in ("compact", "delete"):
        read = without(txn, 2)
        assert problems(acks, read, policy, name="txn-0", committed=True) == 0
        assert problems(acks, txn, policy, name="txn-0", committed=True) == 1
        nothing = without(txn, 0, 2, 4, 5)
        assert problems(acks, nothing, policy, name="txn-0", committed=True) == 1
        assert problems(acks, without(txn, 4), policy, name="txn-0") == 1


def test_a_commit_without_marker_is_undecided(acks: Acks, found: dict[str, Partition]) -> None:
    read = without(found["txn-0"], 0, 2)
    assert problems(acks, read, "delete", name="txn-0", committed=True) == 1
    unmarked = acks.without_last_marker(["txn-0"])
    assert problems(unmarked, read, "delete", name="txn-0", committed=True) == 0
    assert unmarked.undecided["txn-0"] == {0, 4, 5}
    assert unmarked.records == acks.records
