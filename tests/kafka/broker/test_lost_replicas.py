"""A power loss of a whole cluster, after which the leader lacks records that its followers have:
the directory of one partition, and the end of another one.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.kafka.judge.cluster import Cluster, Node
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.names import CLEAN_SHUTDOWN, HIGH_WATERMARK_CHECKPOINT
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import TruncateRequest
from winnow.start.values import BrokerStart
from winnow.state import TopicPartition
from winnow.storage.places import Places

RECORDS, SECONDS, TRIES = 500, 90, 4
GONE, SHORT = "gone", "short"
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.index.size.max.bytes": "65536",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


def names(leader: int) -> tuple[str, str]:
    return f"{GONE}{leader}", f"{SHORT}{leader}"


class Run:
    """The cluster on a copy of what the power loss left."""

    def __init__(self, home: Path, version: str, base: Path | None = None) -> None:
        shutil.rmtree(home, ignore_errors=True)
        if base is None:
            home.mkdir()
        else:
            shutil.copytree(base, home)
        self.cluster = Cluster(home, version=version, settings=SETTINGS)
        self.nodes: Sequence[Node] = self.cluster.nodes

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.nodes[number - 1].launch()
        for number in numbers:
            self.nodes[number - 1].wait_until_started()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def topics(self, *arguments: str) -> str:
        servers = ("--bootstrap-server", self.nodes[0].bootstrap)
        return self.nodes[0].tool("org.apache.kafka.tools.TopicCommand", *servers, *arguments)

    def leader(self, topic: str) -> int | None:
        words = self.topics("--describe", "--topic", topic).split("Leader: ")[1].split()[0]
        return None if words == "none" else int(words)

    def ends(self, topic: str) -> list[int | None]:
        """The high watermark in the checkpoint of each node, which a leader lets all reach."""
        at = TopicPartition(topic, 0)
        paths = [node.log_dir / HIGH_WATERMARK_CHECKPOINT for node in self.nodes]
        return [read_offset_checkpoint(Places(), str(path)).get(at) for path in paths]

    def winnow(self, number: int) -> BrokerStart:
        """`recover --truncate` on a node that is stopped."""
        node = self.nodes[number - 1]
        text = "".join(f"{key}={value}\n" for key, value in node.properties.items())
        dirs = survey_log_dirs(Places(), [str(node.log_dir)])
        settings = Settings(server_properties=parse_server_properties(text))
        settings, _ = with_metadata(settings, Places(), dirs)
        request = TruncateRequest(truncate=True, settings=settings, now=time.time_ns() // 10**6)
        [done], [start] = recover_dirs(Places(), dirs, request, run_id="r")
        assert done.marked is start.is_safe is (node.log_dir / CLEAN_SHUTDOWN).exists()
        return start


def wait_until(what: Callable[[], bool], words: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end, words()
        time.sleep(0.3)


def damage(run: Run, number: int) -> None:
    """The node has lost the directory of one partition that it leads, and the end of the other."""
    gone, short = names(number)
    log_dir = run.nodes[number - 1].log_dir
    shutil.rmtree(log_dir / f"{gone}-0")
    [log] = (log_dir / f"{short}-0").glob("*.log")
    data, end = log.read_bytes(), 0
    while end < len(data) * 0.6:
        end += 12 + int.from_bytes(data[end + 8 : end + 12])
    os.truncate(log, end)


@pytest.fixture(scope="module", params=["3.9.2"])
def base(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """With eligible leader replicas (4.1 on) the last broker whose session ends is the only one
    that may lead, and no leader comes up without it.
    """
    home = tmp_path_factory.mktemp("lost-replicas") / "base"
    run = Run(home, request.param)
    run.start(1, 2, 3)
    for leader, assignment in ((1, "1:2:3"), (2, "2:3:1")):
        for topic in names(leader):
            run.topics("--create", "--topic", topic, "--replica-assignment", assignment)
            run.nodes[0].tool(
                *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic),
                *("--num-records", str(RECORDS), "--record-size", "200", "--throughput", "-1"),
                *("--producer-props", f"bootstrap.servers={run.nodes[0].bootstrap}", "acks=all"),
                *("batch.size=2000", "linger.ms=0"),
            )
    every = [topic for leader in (1, 2) for topic in names(leader)]
    all_there = [RECORDS] * 3
    wait_until(
        lambda: all(run.ends(topic) == all_there for topic in every),
        lambda: [run.ends(topic) for topic in every],
    )
    for node in run.nodes:
        assert node.pid is not None
        os.kill(node.pid, signal.SIGSTOP)
    run.kill()
    return request.param, home


@pytest.mark.slow
def test_leader_that_lacks_records_costs_them_on_all_nodes(
    base: tuple[str, Path], tmp_path: Path
) -> None:
    """Whether it goes on to lead depends on whose session ends first."""
    version, home = base
    for _ in range(TRIES):
        run = Run(tmp_path / "run", version, home)
        damage(run, 1)
        start = run.winnow(1)
        assert start.made_anew == (f"{GONE}1-0",)
        assert [log.name for one in start.log_dirs for log in one.logs if log.already_lost] == [
            f"{SHORT}1-0"
        ]
        run.start(1)
        run.start(2, 3)
        time.sleep(5)
        ends = [run.ends(topic) for topic in names(1)]
        run.kill()
        if any(end is not None and end < RECORDS for found in ends for end in found[1:]):
            return
    pytest.fail(f"no follower has cut its log: {ends}")


@pytest.mark.slow
def test_records_are_back_as_the_advice_says(base: tuple[str, Path], tmp_path: Path) -> None:
    version, home = base
    run = Run(tmp_path / "run", version, home)
    # Node 1 is the only controller: the others can't run without it.
    damage(run, 1)
    assert "copy the directory of the partition from one of them" in str(run.winnow(1).reasons)
    for topic in names(1):
        target = run.nodes[0].log_dir / f"{topic}-0"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(run.nodes[1].log_dir / f"{topic}-0", target)
    assert run.winnow(1).is_safe
    # The others wait for another leader than node 2.
    damage(run, 2)
    assert not run.winnow(2).is_safe
    run.start(1, 3)
    wait_until(
        lambda: all(run.leader(topic) in {1, 3} for topic in names(2)),
        lambda: run.topics("--describe"),
    )
    run.start(2)
    every = [topic for leader in (1, 2) for topic in names(leader)]
    try:
        wait_until(
            lambda: all(run.ends(topic) == [RECORDS] * 3 for topic in every),
            lambda: {topic: run.ends(topic) for topic in every},
        )
    finally:
        run.kill()
