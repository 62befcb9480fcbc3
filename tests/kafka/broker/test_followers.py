"""`verify` finds nothing in the directories of a healthy cluster: three brokers, transactions that
overlap, and the ordinary restart of a follower, which then catches up.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.judge.cluster import Cluster
from tests.unit.cleaning.sweeps import brief
from winnow.logdir.indexes.txnindex import AbortedTransaction, decode_txn_index


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.3.1", "3.9.2", "4.4.0"])
def test_directories_of_a_follower_that_caught_up_are_sound(tmp_path: Path, version: str) -> None:
    """It appends many batches at once, so its transaction index names transactions that begin after
    the marker.
    """
    with Cluster(tmp_path, version=version) as cluster:
        aborted = cluster.overlap("txn", steps=50, seed=1)
        follower = cluster.nodes[-1]
        follower.stop()
        aborted += cluster.overlap("txn", steps=300, seed=2)
        follower.start()
        aborted += cluster.overlap("txn", steps=50, seed=3)
    indexes = [_entries(node.log_dir) for node in cluster.nodes]
    assert [len(entries) for entries in indexes] == [aborted] * len(cluster.nodes)
    assert any(entry.last_stable_offset > entry.last_offset + 1 for entry in indexes[-1])
    assert [brief(node.log_dir) for node in cluster.nodes] == [[], [], []]


def _entries(log_dir: Path) -> tuple[AbortedTransaction, ...]:
    [index] = (log_dir / "txn-0").glob("*.txnindex")
    return decode_txn_index(index.read_bytes(), str(index), base_offset=0)
