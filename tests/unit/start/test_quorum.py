"""Metadata logs that nodes of a quorum have lost: who has another one, and who votes.

Three real brokers of 4.3.1 with empty metadata logs on all nodes, or on two of them, set 34 of 34
partitions aside. Brokers of 3.9.2, 4.3.1 and 4.4.0 take the voters of their server.properties, and
not those of quorum-state.
"""

from __future__ import annotations

import os
import shutil
from base64 import urlsafe_b64decode
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.unit.logdir.metadata_logs import batch, read
from tests.unit.start.quorums import make_nodes, replicate, starts_of, voters
from tests.unit.start.test_broker import NOW, start_of
from tests.unit.wire.metadata_values import remove_topic
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import TruncateRequest
from winnow.start.values import Fate
from winnow.start.words import start_lines, starts_to_json
from winnow.storage.places import Places

Lose = Callable[[Path], None]
METADATA = "__cluster_metadata-0"


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    return make_nodes(tmp_path)


def empty(path: Path) -> None:
    for log in (path / METADATA).glob("*.log"):
        os.truncate(log, 0)
    for snapshot in (path / METADATA).glob("*.checkpoint"):
        snapshot.unlink()


def remove(path: Path) -> None:
    shutil.rmtree(path / METADATA)


def damage(path: Path) -> None:
    """Whole batches follow the damage. No snapshot has them."""
    for snapshot in (path / METADATA).glob("*.checkpoint"):
        snapshot.unlink()
    [log] = (path / METADATA).glob("*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)


def server(node: int, path: Path, quorum: str, roles: str = "broker,controller") -> Settings:
    text = f"process.roles={roles}\nnode.id={node}\nlog.dirs={path}\n{quorum}"
    return Settings(server_properties=parse_server_properties(text))


def static(*nodes: int) -> str:
    return "controller.quorum.voters=" + ",".join(f"{node}@h:1" for node in nodes)


def test_three_sound_nodes_start(nodes: list[Path]) -> None:
    assert all(start.is_safe and not start.reasons for start in starts_of(nodes))


@pytest.mark.parametrize("lose", [empty, damage])
def test_one_node_alone_promises_nothing_for_a_metadata_log_that_it_has_lost(
    nodes: list[Path], lose: Lose
) -> None:
    lose(nodes[0])
    start = start_of(nodes[0])
    assert (start.of_broker, start.is_safe, start.is_harmful) == (Fate.UNKNOWN, False, True)
    [reason] = start.reasons
    assert "a majority of the voters 1, 2 and 3" in reason
    assert not start.logs(Fate.SET_ASIDE)


def test_two_of_five_voters_are_no_majority(nodes: list[Path]) -> None:
    for path in nodes:
        state = path / METADATA / "quorum-state"
        state.write_text(state.read_text().replace(voters(1, 2, 3), voters(1, 2, 3, 4, 5)))
    empty(nodes[0])
    first, *others = starts_of(nodes)
    assert (first.of_broker, first.is_safe) == (Fate.UNKNOWN, False)
    assert all(start.is_safe for start in others)


@pytest.mark.parametrize("lose", [empty, remove, damage])
def test_lost_metadata_log_is_fetched_from_a_majority_of_sound_logs(
    nodes: list[Path], lose: Lose
) -> None:
    lose(nodes[0])
    # With the directory goes the quorum-state.
    told = server(1, nodes[0], static(1, 2, 3)) if lose is remove else None
    first, *others = starts_of(nodes, told)
    assert first.is_safe
    assert "from nodes 2 and 3" in first.reasons[0]
    assert first.needs_quorum
    assert all(start.is_safe and not start.needs_quorum for start in others)


def test_topics_missing_on_the_majority_are_not_restored(nodes: list[Path]) -> None:
    empty(nodes[0])
    for path in nodes[1:]:
        for pattern in ("*.checkpoint", "*.snapshot"):
            for snapshot in (path / METADATA).glob(pattern):
                snapshot.unlink()
        [log] = (path / METADATA).glob("*.log")
        os.truncate(log, 12 + int.from_bytes(log.read_bytes()[8:12]))
    first, *_ = starts_of(nodes)
    assert not first.is_safe
    assert [log.name for log in first.logs(Fate.UNKNOWN) if log.name == "d-0"]


def test_metadata_log_of_another_cluster_does_not_count(nodes: list[Path]) -> None:
    empty(nodes[0])
    for path in nodes[1:]:
        meta = path / "meta.properties"
        meta.write_text(meta.read_text().replace("=V2lubm93", "=A2lubm93"))
    assert not starts_of(nodes)[0].is_safe


@pytest.mark.parametrize("lose", [empty, remove])
@pytest.mark.parametrize("whole", [(), (3,)])
def test_majority_with_lost_metadata_logs_loses_all_topics(
    nodes: list[Path], whole: tuple[int, ...], lose: Lose
) -> None:
    for node, path in enumerate(nodes, 1):
        if node not in whole:
            state = (path / METADATA / "quorum-state").read_bytes()
            lose(path)
            if lose is remove:
                (path / METADATA).mkdir()
                (path / METADATA / "quorum-state").write_bytes(state)
    first, *others = starts_of(nodes)
    assert first.of_broker is Fate.LOSES
    assert {"c-0", "d-0", "d-1"} <= {log.name for log in first.logs(Fate.SET_ASIDE)}
    assert all(start.of_broker is Fate.LOSES for start in others)


@pytest.mark.parametrize("whole", [(), (2, 3)])
def test_marker_is_written_only_where_a_majority_has_the_log(
    nodes: list[Path], whole: tuple[int, ...]
) -> None:
    for node, path in enumerate(nodes, 1):
        if node not in whole:
            empty(path)
    dirs = survey_log_dirs(Places(), [str(path) for path in nodes])
    request = TruncateRequest(truncate=True, settings=Settings(), now=NOW)
    done, _ = recover_dirs(Places(), dirs, request, run_id="r")
    assert [one.marked for one in done] == [bool(whole)] * 3


def test_voters_of_server_properties_count_above_those_of_quorum_state(nodes: list[Path]) -> None:
    empty(nodes[0])
    start = start_of(nodes[0], settings=server(1, nodes[0], static(1)))
    assert start.of_broker is Fate.LOSES
    assert start.logs(Fate.SET_ASIDE)
    assert "quorum-state names the voters 1, 2 and 3" in start.reasons[0]


@pytest.mark.parametrize(
    ("stated", "quorum", "roles"),
    [
        ((1,), static(1, 2, 3), "broker,controller"),
        ((1,), static(7, 8, 9), "broker"),
        ((1,), "", "broker"),
    ],
)
def test_start_is_unknown_if_two_files_name_different_voters(
    nodes: list[Path], stated: tuple[int, ...], quorum: str, roles: str
) -> None:
    state = nodes[0] / METADATA / "quorum-state"
    state.write_text(state.read_text().replace(voters(1, 2, 3), voters(*stated)))
    empty(nodes[0])
    [first, *_] = starts_of(nodes, server(1, nodes[0], quorum, roles))
    assert (first.of_broker, first.is_safe) == (Fate.UNKNOWN, False)
    assert not first.logs(Fate.SET_ASIDE)


def test_broker_that_does_not_vote_fetches_the_log_only_from_a_majority_that_was_given(
    nodes: list[Path],
) -> None:
    for path in nodes:
        state = path / METADATA / "quorum-state"
        state.write_text(state.read_text().replace(voters(1, 2, 3), voters(2, 3)))
    empty(nodes[0])
    settings = server(1, nodes[0], static(2, 3), "broker")
    assert not starts_of(nodes[:2], settings)[0].is_safe
    assert starts_of(nodes, settings)[0].is_safe


def delete_topic(paths: Sequence[Path], topic: str) -> None:
    """Append that the topic was deleted to these nodes' metadata logs."""
    for path in paths:
        metadata = read(path / METADATA)
        topic_id = urlsafe_b64decode(f"{metadata.topics[topic].topic_id}==")
        with (path / METADATA / f"{0:020d}.log").open("ab") as writer:
            writer.write(
                batch(metadata.end_offset, remove_topic(topic_id), epoch=metadata.end.epoch)
            )


def test_newest_metadata_log_determines_which_partitions_every_node_sets_aside(
    nodes: list[Path],
) -> None:
    """A real broker of 4.3.1 that was down while a topic was deleted renames its directory to
    `-stray`, for it first fetches the newer records.
    """
    replicate(nodes, "d", (1, 2, 3))
    delete_topic(nodes[:2], "d")
    for paths in (nodes, nodes[::-1], [nodes[2], nodes[0]]):
        [third] = [start for start in starts_of(paths) if start.node_id == 3]
        [aside] = third.logs(Fate.SET_ASIDE)
        assert aside.name == "d-0"
        assert "of node 1 has no topic with its id" in aside.reason
        assert not third.is_safe


def test_node_alone_says_that_newer_records_of_the_others_decide(nodes: list[Path]) -> None:
    replicate(nodes, "d", (1, 2, 3))
    delete_topic(nodes[:2], "d")
    third = start_of(nodes[2])
    assert third.is_safe
    assert list(start_lines(third)) == [third.caveat]
    assert "other nodes vote in its quorum" in third.caveat
    assert starts_to_json([third])[0]["reasons"] == [third.caveat]
    assert not any(start.caveat for start in starts_of(nodes))


def test_newer_log_of_a_minority_may_still_change(nodes: list[Path]) -> None:
    for path in nodes:
        state = path / METADATA / "quorum-state"
        state.write_text(state.read_text().replace(voters(1, 2, 3), voters(1, 2, 3, 4, 5)))
    replicate(nodes, "d", (1, 2, 3))
    delete_topic(nodes[:1], "d")
    _, third = starts_of([nodes[0], nodes[2]])
    [unknown] = third.logs(Fate.UNKNOWN)
    assert unknown.name == "d-0"
    assert unknown.by_other_nodes
    assert not third.is_safe
