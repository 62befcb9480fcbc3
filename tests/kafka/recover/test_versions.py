"""`recover --truncate` leaves the logs that a killed broker of each era leaves when it recovers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kafka.judge.broker import Broker, BrokerFailedError
from tests.kafka.judge.child import Child
from tests.kafka.recover.compare import partitions_of, recover_with_winnow
from tests.kafka.versions.zookeeper import ZooKeeperBroker
from winnow.clock import now_ms
from winnow.logdir.names import LEADER_EPOCHS, LOG, RECOVERY_POINT_CHECKPOINT
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version
from winnow.recovery.logs.values import TruncateRequest

pytestmark = pytest.mark.slow

TAILS = (b"\0\0\0\0\0\0\1", 11, 3, 0)
"""What follows the last batch, or how many of its bytes are missing."""


@pytest.mark.parametrize(
    ("version", "kind", "segment_key"),
    [
        ("2.8.2", ZooKeeperBroker, "segment.bytes"),
        ("3.9.2", Broker, "segment.bytes"),
        ("4.4.0", Broker, "internal.segment.bytes"),
    ],
)
def test_logs_are_those_that_a_broker_of_the_version_recovers(
    version: str, kind: type[Broker], segment_key: str, tmp_path: Path
) -> None:
    theirs, ours, home = tmp_path / "theirs", tmp_path / "ours", tmp_path / "home"
    broker = kind(theirs, home=home, version=version).start()
    try:
        fill = Child("Fill", broker.bootstrap, segment_key, "false", patience=120, version=version)
        assert fill.answer("first")
        assert fill.answer("main")
        configs = broker.kafka_configs("--entity-type", "topics", "--describe")
    finally:
        broker.kill()
    partitions = partitions_of(theirs)
    # A coordinator whose last record is lost would write once the broker is up again.
    torn = [path for path in partitions if not path.name.startswith("__")]
    for number, partition in enumerate(torn):
        _tear(max(partition.glob(f"*{LOG}")), TAILS[number % len(TAILS)])
    (theirs / RECOVERY_POINT_CHECKPOINT).write_text("0\n0\n")
    shutil.copytree(theirs, ours)

    _recover_with_broker(kind(theirs, home=home, version=version))
    settings = Settings(
        server_properties=parse_server_properties((home / "server.properties").read_text()),
        allow_other_broker=True,
        compare_log_dirs=False,
        topic_configs=parse_topic_configs(configs),
        kafka=asked_version(version),
    )
    asked = TruncateRequest(settings=settings, now=now_ms(), truncate=True, lose_records=True)
    result = recover_with_winnow(ours, asked=asked)
    assert [(log.name, log.error) for log in result.logs if log.error] == []
    assert result.marked
    assert len(partitions) > 20
    assert [p.name for p in partitions if _files(p) != _files(ours / p.name)] == []


def _recover_with_broker(broker: Broker) -> None:
    """Start and stop it. ZooKeeper still knows the one that was killed, and refuses the new one,
    which has then recovered and closed its logs.
    """
    try:
        broker.start()
    except BrokerFailedError:
        assert isinstance(broker, ZooKeeperBroker), broker.log[-4000:]
    finally:
        broker.stop()


def _tear(log: Path, tail: bytes | int) -> None:
    data = log.read_bytes()
    log.write_bytes(data + tail if isinstance(tail, bytes) else data[: len(data) - tail])


def _files(partition: Path) -> dict[str, bytes]:
    """Without the epoch that begins when the broker becomes a leader again."""
    return {
        path.name: path.read_bytes()
        for path in partition.iterdir()
        if path.is_file() and path.name != LEADER_EPOCHS
    }
