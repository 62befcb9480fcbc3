"""Directories of partitions that are gone: a finding, but none on a healthy cluster."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.cleaning.sweeps import findings
from tests.unit.logdir.metadata_logs import remove_other_topics
from tests.unit.start.quorums import make_nodes, replicate, starts_of
from winnow.storage.places import Places
from winnow.verbs.verify.copies import with_copies
from winnow.verbs.verify.directories import check_log_dir
from winnow.verbs.verify.findings import Finding
from winnow.verbs.verify.gone import gone_directories
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.sources import choice_of, log_dirs_of

CHECKPOINTS = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint")


def gone(*paths: Path, topics: Sequence[str] = ()) -> list[Finding]:
    names = [str(path) for path in paths]
    own = log_dirs_of(Places(), names)
    choice = choice_of(Places(), own)
    checked = {name: check_log_dir(Places(), name, topics=topics) for name in names}
    cluster = own[0].meta.cluster_id
    found = gone_directories(Places(), checked, own, choice.metadata, cluster, topics=topics)
    return [*with_copies(Places(), found, names)]


def forget(log_dir: Path) -> None:
    for name in CHECKPOINTS:
        (log_dir / name).unlink()


@pytest.fixture(params=["stopped", "killed"])
def two(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """Two log directories of a broker of 4.3.1."""
    copy_base("4.3.1", request.param, tmp_path / "r")
    return tmp_path / "r" / "a", tmp_path / "r" / "b"


def test_sound_broker_lacks_nothing_also_where_not_all_of_it_is_given(
    two: tuple[Path, Path],
) -> None:
    assert gone(*two) == gone(two[0]) == gone(two[1]) == []


def test_checkpoint_shows_that_a_directory_is_gone(two: tuple[Path, Path]) -> None:
    path = two[1] / "d-1"
    shutil.rmtree(path)
    [found] = gone(*two)
    assert (found.kind, found.log_dir, found.file) == (Kind.GONE, str(two[1]), "d-1")
    assert "in replication-offset-checkpoint: its directory is lost" in found.message
    assert "No other node has a replica. Do not start this broker: put the" in found.meaning
    # The metadata log is in a.
    assert gone(two[0]) == gone(two[1]) == []
    assert gone(*two, topics=["c"]) == []


@pytest.mark.parametrize("kind", ["stray", "delete"])
def test_stray_or_delete_directory_with_the_same_topic_id_is_named(
    two: tuple[Path, Path], kind: str
) -> None:
    aside = two[1] / f"d-1.{'0' * 32}-{kind}"
    (two[1] / "d-1").rename(aside)
    [found] = gone(*two)
    assert f"{aside} is this partition, for it has the same topic id: rename" in found.message
    [start] = starts_of(two)
    assert f"d-1. {aside} is this partition" in str(start.reasons)
    (aside / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
    [found] = gone(*two)
    assert "is this partition" not in f"{found.message} {starts_of(two)[0].reasons}"


def test_lost_directory_is_found_without_checkpoints(tmp_path: Path) -> None:
    copy_base("4.3.1", "killed", tmp_path / "r")
    log_dirs = tmp_path / "r" / "a", tmp_path / "r" / "b"
    shutil.rmtree(log_dirs[1] / "d-1")
    forget(log_dirs[1])
    [found] = gone(*log_dirs)
    assert found.message.endswith("found none, although this node was in sync")


def test_partition_in_another_log_directory_of_the_broker_is_not_gone(
    two: tuple[Path, Path],
) -> None:
    (two[1] / "d-1").rename(two[0] / f"d-1.{'0' * 32}-future")
    assert gone(*two) == []


def test_deleted_topic_is_not_gone_although_a_checkpoint_has_it(tmp_path: Path) -> None:
    copy_base("4.3.1", "alone", tmp_path / "r")
    log_dir = tmp_path / "r" / "a"
    shutil.rmtree(log_dir / "c-0")
    assert [found.file for found in gone(log_dir)] == ["c-0"]
    remove_other_topics(log_dir)
    assert gone(log_dir) == []


def test_topic_that_was_just_created_is_not_gone(tmp_path: Path) -> None:
    """The controller knows the only log directory of a broker before the broker makes the log."""
    copy_base("4.3.1", "alone", tmp_path / "r")
    shutil.rmtree(tmp_path / "r" / "a" / "c-0")
    forget(tmp_path / "r" / "a")
    assert gone(tmp_path / "r" / "a") == []


def test_replica_on_another_node_is_not_gone(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", (1, 2, 3))
    assert gone(*nodes) == []
    shutil.rmtree(nodes[1] / "d-0")
    [found] = gone(*nodes)
    assert (found.log_dir, found.copies) == (str(nodes[1]), "others")
    assert "While one of them leads, start this broker" in found.meaning


def test_partition_lost_on_all_nodes_has_no_sound_replica(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", (1, 2, 3))
    for path in nodes:
        shutil.rmtree(path / "d-0")
    found = gone(*nodes)
    assert [one.log_dir for one in found] == [str(path) for path in nodes]
    assert {one.copies for one in found} == {"damaged"}
    assert all("Do not start this broker" in one.meaning for one in found)


@pytest.mark.parametrize(
    ("missing", "wrong", "copies"),
    [
        ((), (2,), "others"),
        ((1,), (2,), "others"),
        ((1, 3), (2,), "damaged"),
        ((), (1, 2, 3), "damaged"),
        ((1,), (2, 3), "damaged"),
    ],
)
def test_replica_that_was_given_counts_only_if_it_is_there_and_sound(
    tmp_path: Path, missing: tuple[int, ...], wrong: tuple[int, ...], copies: str
) -> None:
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", (1, 2, 3))
    for node in missing:
        shutil.rmtree(nodes[node - 1] / "d-0")
    for node in wrong:
        log = nodes[node - 1] / "d-0" / f"{0:020d}.log"
        data = bytearray(log.read_bytes())
        data[200] ^= 1
        log.write_bytes(data)
    of_files = [found for path in nodes for found in findings(path) if found.topic == "d"]
    found = with_copies(Places(), of_files, [str(path) for path in nodes])
    damaged = [one for one in found if one.kind is Kind.CRC]
    assert len(damaged) == len(wrong)
    assert {one.copies for one in damaged} == {copies}
    advised = {"delete the directory" in one.meaning for one in damaged}
    assert advised == {copies == "others"}
