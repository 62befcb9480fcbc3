"""What a node knows when records in its metadata log are missing, or when other nodes have more.

Real brokers judge the same gaps in `tests/kafka/starts`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.kafka.starts.changes import CHANGES
from tests.unit.start.test_broker import METADATA, log_of, start_of
from winnow.start.values import Fate

OTHER_ID = "Zm9vYmFyYmF6cXV4MTIzNA"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    copy_base("3.9.2", "alone", tmp_path / "r")
    return tmp_path / "r" / "a"


def cut_out(log_dir: Path, first: int, after: int, *, snapshots: bool) -> None:
    for path in (log_dir / METADATA).glob("*.checkpoint") if not snapshots else ():
        path.unlink()
    log = log_dir / METADATA / f"{0:020d}.log"
    CHANGES["gap"](log, log_dir, str(first), str(after))


def test_node_starts_without_the_topics_in_a_gap_of_its_metadata_log(log_dir: Path) -> None:
    cut_out(log_dir, 34, 60, snapshots=False)
    start = start_of(log_dir)
    assert start.fate is Fate.LOSES
    assert start.reasons == (
        f"{METADATA} lacks offsets 40 to 62: the node starts without the changes in them",
    )
    aside = [log.name for log in start.logs(Fate.SET_ASIDE)]
    assert aside == ["__transaction_state-0", "__transaction_state-1"]


def test_gap_below_the_newest_snapshot_is_no_harm(log_dir: Path) -> None:
    cut_out(log_dir, 20, 30, snapshots=True)
    assert start_of(log_dir).is_safe


def test_start_fails_if_the_metadata_log_lacks_the_creation_of_a_topic_that_it_changes(
    log_dir: Path,
) -> None:
    cut_out(log_dir, 20, 30, snapshots=False)
    assert start_of(log_dir).fate is Fate.STOPS


@pytest.mark.parametrize(("voters", "fate"), [((1,), Fate.SET_ASIDE), ((1, 2), Fate.UNKNOWN)])
def test_newer_records_of_other_voters_decide_what_is_set_aside(
    log_dir: Path, voters: tuple[int, ...], fate: Fate
) -> None:
    metadata = log_dir / "c-0" / "partition.metadata"
    metadata.write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    state = log_dir / METADATA / "quorum-state"
    listed = ",".join(f'{{"voterId":{voter}}}' for voter in voters)
    state.write_text(state.read_text().replace('{"voterId":1}', listed))
    start = start_of(log_dir)
    log = log_of(start, "c-0")
    assert (log.fate, f"has no topic with its id {OTHER_ID}" in log.reason) == (fate, True)
    assert (start.is_safe, start.is_harmful) == (False, fate is Fate.SET_ASIDE)
    assert start.unseen == ((f"{log_dir}/c-0",) if fate is Fate.UNKNOWN else ())
    metadata.unlink()
    assert log_of(start_of(log_dir), "c-0").fate is Fate.SET_ASIDE


@pytest.mark.parametrize(
    "change", [("remove",), ("empty",), ("batches", "3"), ("move", f"{METADATA}/lost.log.deleted")]
)
def test_metadata_log_that_ends_below_its_snapshots_has_lost_its_end(
    log_dir: Path, change: tuple[str, ...]
) -> None:
    """Brokers of 3.9.2, 4.3.1 and 4.4.0 start, without what was changed after the snapshot."""
    name, *words = change
    CHANGES[name](log_dir / METADATA / f"{0:020d}.log", log_dir, *words)
    start = start_of(log_dir)
    assert (start.fate, start.is_safe) == (Fate.LOSES, False)
    assert "it has lost its end, and changes of topics and settings with it" in start.reasons[0]
