"""The plan of an erasure names the replicas that Kafka's own tool describes, on three brokers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.judge.broker import BrokerFailedError
from tests.kafka.judge.cluster import Cluster
from winnow.api import erase
from winnow.verbs.erase.replicas import Replicas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TOOLS = "org.apache.kafka.tools"
SETTINGS = {"broker.session.timeout.ms": "120000"}
"""A broker that stands still for some seconds stays registered."""


def asked(cluster: Cluster, tool: str, *arguments: str) -> str | None:
    """Return what a tool prints; None if it fails. It may choose to ask a broker that stands still,
    and does not wait long for that.
    """
    first = cluster.nodes[0]
    short = first.home / "short.properties"
    short.write_text("default.api.timeout.ms=8000\nrequest.timeout.ms=4000\n")
    server = ("--bootstrap-server", first.bootstrap, "--command-config", str(short))
    with suppress(BrokerFailedError):
        return first.tool(f"{TOOLS}.{tool}", *server, *arguments)
    return None


def described(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Partition -> its replicas, and those that are added and removed, by kafka-topics."""
    found = {}
    tries = (asked(cluster, "TopicCommand", "--describe") for _ in range(20))
    out = next(said for said in tries if said is not None)
    for line in out.splitlines():
        pairs = (part.partition(":") for part in line.split("\t"))
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        if "Partition" in fields and not fields["Topic"].startswith("__"):
            lists = (
                ",".join(sorted(filter(None, fields.get(name, "").split(","))))
                for name in ("Replicas", "Adding Replicas", "Removing Replicas")
            )
            found[f"{fields['Topic']}-{fields['Partition']}"] = tuple(lists)
    return found


def planned(spark: SparkSession, log_dir: Path) -> Replicas:
    return erase(spark, str(log_dir), keys=[b"none"], dry_run=True).replicas


def words(replicas: Replicas) -> dict[str, tuple[str, ...]]:
    found = {}
    for one in replicas.partitions:
        moved = one.reassignment
        lists = (
            [each.node_id for each in one.replicas],
            moved.adding if moved else (),
            moved.removing if moved else (),
        )
        found[one.name] = tuple(",".join(map(str, sorted(nodes))) for nodes in lists)
    return found


@contextmanager
def standing_still(pid: int | None) -> Iterator[None]:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_plan_equals_what_kafka_topics_describes(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        first, _, third = cluster.nodes
        server = ("--bootstrap-server", first.bootstrap)
        for name, copies in (("three", 3), ("two", 2), ("one", 1)):
            first.tool(
                f"{TOOLS}.TopicCommand",
                *(*server, "--create", "--topic", name),
                *("--partitions", "4", "--replication-factor", str(copies)),
            )
        before = described(cluster)
        assert words(planned(spark, first.log_dir)) == before
        assert {replicas for replicas, _, _ in before.values()} > {"1,2,3"}
        partition = next(name for name, found in before.items() if found[0] in {"1", "2"})
        topic, _, number = partition.rpartition("-")
        moved = {"topic": topic, "partition": int(number), "replicas": [3]}
        file = tmp_path / "move.json"
        file.write_text(json.dumps({"version": 1, "partitions": [moved]}))
        with standing_still(third.pid):
            for _ in range(20):
                move = ("--execute", "--reassignment-json-file", str(file))
                asked(cluster, "reassign.ReassignPartitionsCommand", *move)
                if described(cluster) != before:
                    break
            now, plan = described(cluster), planned(spark, first.log_dir)
            assert words(plan) == now != before
            assert [one.name for one in plan.reassigned] == [partition]
        third.wait_until_logged(f"Created log for partition {partition}", timeout_seconds=60)
        while (after := described(cluster))[partition][1]:
            pass
    for node in cluster.nodes:
        plan = planned(spark, node.log_dir)
        assert words(plan) == after
        assert (plan.node_id, plan.missing) == (int(node.log_dir.name[-1]), ())
        assert next(iter(plan.per_broker)) == plan.node_id
