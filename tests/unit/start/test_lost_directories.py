"""Partitions whose directories are gone, while the metadata log is whole: a broker makes them anew.

Real brokers judge the same states in `tests/kafka/starts`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.logdir.metadata_logs import read
from tests.unit.start.quorums import make_nodes, replicate, servers_of, starts_of
from tests.unit.start.test_broker import NOW, log_of, start_of
from winnow.advice import Copies
from winnow.logdir.commit.recovery import recover
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import CLEAN_SHUTDOWN
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import TruncateRequest
from winnow.start.copies import copies_of
from winnow.start.values import Fate
from winnow.start.words import verdict
from winnow.storage.places import Places

IN_B = ("__transaction_state-0", "d-1", "e-0")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two log directories of a broker that was killed, and nothing is left in b."""
    copy_base("4.3.1", "killed", tmp_path / "r")
    for path in (tmp_path / "r" / "b").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    return tmp_path / "r"


def without_directory_ids(root: Path) -> None:
    """As before Kafka 3.7."""
    for meta in root.glob("?/meta.properties"):
        lines = meta.read_text().splitlines()
        meta.write_text("\n".join(line for line in lines if not line.startswith("directory.id")))


def test_registration_shows_that_all_log_directories_were_given(root: Path) -> None:
    start = start_of(root / "a", root / "b")
    assert (start.made_anew, start.is_safe, start.is_harmful) == (IN_B, False, True)
    assert "d-1, e-0: no directory, and no other node has a replica" in start.reasons[0]
    assert re.fullmatch(
        r"broker 1 starts and recovers \d.* KiB, makes 3 partitions anew", verdict(start)
    )


def test_partitions_of_a_log_directory_that_was_not_given_are_not_missed(root: Path) -> None:
    start = start_of(root / "a")
    assert (start.made_anew, start.fate, start.is_harmful) == ((), Fate.UNKNOWN, False)
    [reason] = start.unseen
    assert "started last with 2 log directories" in reason


def test_without_ids_it_is_not_known_whether_the_broker_has_other_log_directories(
    root: Path,
) -> None:
    without_directory_ids(root)
    start = start_of(root / "a", root / "b")
    assert (start.made_anew, start.fate, start.is_harmful) == ((), Fate.UNKNOWN, False)
    assert start.unseen == IN_B
    assert "Give all of its log directories, and its --server-properties FILE" in start.reasons[0]


@pytest.mark.parametrize("text", [None, "node.id=1\nlog.dirs=@/a,@/b"])
def test_no_marker_is_written_where_partitions_are_made_anew(root: Path, text: str | None) -> None:
    settings = Settings()
    if text is not None:
        named = text.replace("@", str(root))
        settings = Settings(server_properties=parse_server_properties(named))
    dirs = survey_log_dirs(Places(), [str(root / "a"), str(root / "b")])
    request = TruncateRequest(truncate=True, settings=settings, now=NOW)
    done, [start] = recover_dirs(Places(), dirs, request, run_id="r")
    assert start.made_anew == IN_B
    assert [one.marked for one in done] == [False, False]
    assert not [*root.glob(f"?/{CLEAN_SHUTDOWN}")]


def test_log_directory_that_can_not_be_used_may_have_what_the_controller_means_there(
    root: Path,
) -> None:
    (root / "b" / "meta.properties").write_text("version=9\nnode.id=1\n")
    shutil.rmtree(root / "a" / "d-0")
    properties = parse_server_properties(f"node.id=1\nlog.dirs={root}/a,{root}/b")
    start = start_of(root / "a", root / "b", settings=Settings(server_properties=properties))
    assert (start.made_anew, start.fate) == (("d-0",), Fate.OFFLINE)


def test_log_that_is_emptied_and_set_aside_has_no_followers(tmp_path: Path) -> None:
    copy_base("4.3.1", "stopped", tmp_path / "r")
    directory = tmp_path / "r" / "b" / "d-1"
    for path in directory.iterdir():
        if path.suffix != ".metadata":
            path.unlink()
    both = (tmp_path / "r" / "a", tmp_path / "r" / "b")
    served = log_of(start_of(*both), "d-1")
    assert "Followers of such a leader" in served.advice.capitalize()
    (directory / "partition.metadata").unlink()
    aside = log_of(start_of(*both), "d-1")
    assert aside.fate is Fate.SET_ASIDE
    assert aside.already_lost.startswith("it ends at offset 0, below its high watermark 150")
    assert aside.advice == ""


def test_records_that_only_deleted_files_have_are_no_leftovers(root: Path) -> None:
    """What a real broker of 4.3.1 left of a partition that it recovered on a full disk: the log
    emptied, and its segments in `.deleted` files, which the next start removes.
    """
    directory = root / "a" / "d-0"
    logs = sorted(directory.glob("*.log"))
    for log in logs[2:]:
        for path in directory.glob(f"{log.stem}.*"):
            if path.suffix in {".log", ".index", ".timeindex"}:
                path.rename(f"{path}.deleted")
    before = {path.name: path.stat().st_size for path in directory.iterdir()}
    start = start_of(root / "a")
    assert log_of(start, "d-0").fate is Fate.LOSES
    assert "have records that the log has lost" in log_of(start, "d-0").reason
    assert recover(Places(), str(directory)).removed == ()
    assert {path.name: path.stat().st_size for path in directory.iterdir()} == before
    # As the reason says:
    for path in directory.glob("*.log.deleted"):
        path.rename(path.with_suffix(""))
    assert log_of(start_of(root / "a"), "d-0").fate is Fate.RECOVERS


@pytest.mark.parametrize(
    ("in_sync", "lost", "harmed"),
    [
        ((2,), (2,), (2,)),
        ((1, 2), (2,), (2,)),
        ((1, 3), (2,), ()),
        ((1, 2), (1, 2), (1, 2)),
        ((1, 2, 3), (1, 2, 3), (1, 2, 3)),
        ((1, 2, 3), (1, 2), (1, 2)),
    ],
)
def test_member_of_the_isr_without_the_directory_may_lead_it_anew(
    tmp_path: Path, in_sync: tuple[int, ...], lost: tuple[int, ...], harmed: tuple[int, ...]
) -> None:
    """On real clusters of 3.9.2, 4.3.1 and 4.4.0, the followers then cut the partition to 0 bytes,
    also those in sync: after a power loss the leader goes on to lead.
    """
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", in_sync)
    settings = servers_of(nodes)
    assert all(start.is_safe for start in starts_of(nodes, settings))
    for node in lost:
        shutil.rmtree(nodes[node - 1] / "d-0")
    for node, start in zip((1, 2, 3), starts_of(nodes, settings), strict=True):
        assert start.made_anew == (("d-0",) if node in harmed else ())
        assert start.is_safe == (node not in harmed)
        assert ("cut their logs, too" in str(start.reasons)) == (node in harmed)
        others = {*in_sync} - {*lost}
        assert ("only while another member of the ISR leads" in str(start.reasons)) == (
            node in harmed and bool(others)
        )


def test_partition_that_other_members_of_the_isr_have_is_no_harmless_loss(tmp_path: Path) -> None:
    """The others were not given: nobody knows who leads."""
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", (1, 2, 3))
    shutil.rmtree(nodes[0] / "d-0")
    [start] = starts_of(nodes[:1])
    assert (start.made_anew, start.is_safe, start.is_harmful) == (("d-0",), False, True)
    assert start.reasons[0].startswith(
        "d-0: no directory, and the ISR has this node, besides nodes 2 and 3. If it leads, it "
        "makes it anew, without a record, and the others cut their logs, too. Start this broker "
        "only while another member of the ISR leads"
    )
    dirs = survey_log_dirs(Places(), [str(nodes[0])])
    request = TruncateRequest(truncate=True, settings=Settings(), now=NOW)
    [done], _ = recover_dirs(Places(), dirs, request, run_id="r")
    assert not done.marked
    shutil.copytree(nodes[1] / "d-0", nodes[0] / "d-0")
    replicate(nodes, "d", (2, 3))
    shutil.rmtree(nodes[0] / "d-0")
    [start] = starts_of(nodes[:1])
    assert start.is_safe  # it follows
    replicate(nodes, "c", (1,))
    shutil.rmtree(nodes[0] / "c-0")
    [start] = starts_of(nodes[:1])
    assert (start.made_anew, start.is_safe) == (("c-0",), False)
    assert "no other node has a replica that is in sync" in start.reasons[0]


def test_partition_of_the_isr_without_a_directory_if_there_may_be_other_log_directories(
    tmp_path: Path,
) -> None:
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", (1, 2))
    without_directory_ids(nodes[0].parent)
    shutil.rmtree(nodes[0] / "d-0")
    [start] = starts_of(nodes[:1])
    assert (start.fate, start.is_safe, start.unseen) == (Fate.UNKNOWN, False, ("d-0",))
    assert "anew, without a record where it leads, and the others cut" in start.reasons[0]


def test_eligible_leader_replica_counts_as_in_sync(tmp_path: Path) -> None:
    """From 4.1 on, a controller lets it lead if no member of the ISR is left (KIP-966)."""
    nodes = make_nodes(tmp_path)
    replicate(nodes, "d", (1,), eligible=(2,))
    metadata = read(nodes[0] / METADATA_DIR)
    assert copies_of(metadata.topics["d"], 0, 1) is Copies.OTHERS
    assert copies_of(metadata.topics["d"], 0, 1, lost=[2]) is Copies.DAMAGED
    shutil.rmtree(nodes[1] / "d-0")
    starts = starts_of(nodes, servers_of(nodes))
    assert [start.made_anew for start in starts] == [(), ("d-0",), ()]
    replicate(nodes, "d", (1,), eligible=())
    metadata = read(nodes[0] / METADATA_DIR)
    assert copies_of(metadata.topics["d"], 0, 1) is Copies.BEHIND
