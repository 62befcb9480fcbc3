"""Three real brokers of one version: node 1 is also the controller."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from tests.kafka.judge.broker import Broker
from tests.kafka.judge.jars import KAFKA_VERSION

NODES = 3
HEAP = "320m"
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    # A broker that starts again is soon in sync.
    "replica.fetch.wait.max.ms": "100",
}


class Node(Broker):
    """One broker of the cluster. Without `controller`, it is the controller itself."""

    def __init__(
        self,
        number: int,
        home: Path,
        *,
        controller: Broker | None,
        version: str,
        settings: Mapping[str, str],
    ) -> None:
        super().__init__(
            home / f"node-{number}",
            home=home / f"home-{number}",
            settings=REPLICATED | dict(settings),
            heap=HEAP,
            version=version,
        )
        self._number = number
        self.tool = self._tool
        if controller is not None:
            self._controller_port = controller._controller_port

    def _identity(self) -> dict[str, str]:
        is_controller = self._number == 1
        listeners = f"PLAINTEXT://{self.bootstrap}"
        own = f",CONTROLLER://127.0.0.1:{self._controller_port}" if is_controller else ""
        return super()._identity() | {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(self._number),
            "listeners": listeners + own,
        }


class Cluster:
    """`with Cluster(home) as cluster: cluster.overlap("txn", steps=200)`. The directories are those
    of `nodes`.
    """

    def __init__(
        self,
        home: Path,
        *,
        version: str = KAFKA_VERSION,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`settings`: of server.properties, for all brokers."""
        node = partial(Node, home=home, version=version, settings=settings)
        first = node(1, controller=None)
        self.nodes = [first, *(node(n, controller=first) for n in range(2, NODES + 1))]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def overlap(self, topic: str, *, steps: int, seed: int) -> int:
        """Write transactions that overlap (Overlap.java) into a topic with a replica on each
        broker. Return how many were aborted.
        """
        return int(
            self.nodes[0].tool("Overlap", self.bootstrap, topic, str(NODES), str(steps), str(seed))
        )

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait_until_started()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the brokers, the controller last."""
        for node in reversed(self.nodes):
            node.stop() if error is None else node.kill()
