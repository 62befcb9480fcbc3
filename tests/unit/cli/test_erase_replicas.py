"""What `erase` says of the replicas on all brokers, by the metadata log of a controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.unit.cli.results import in_json, printed
from tests.unit.logdir.metadata_logs import log
from tests.unit.wire.metadata_values import ID_B, partition, replicas_of, topic
from winnow.cleaning.plan.settings import with_metadata
from winnow.cli.options import CommandLine
from winnow.cli.text.replicas import replicas_section, to_json
from winnow.errors import CorruptLogError
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.survey import survey_log_dirs
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Settings
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage
from winnow.verbs.erase.replicas import Replicas, find_replicas
from winnow.verbs.erase.values import EraseResult
from winnow.wire.metadata_records import uuid_text

DISK_1, DISK_2, OTHER = (bytes([n]) * 16 for n in (1, 2, 3))
ALL = (
    topic("orders"),
    *(partition(n, directory=DISK_1) for n in range(3)),
    topic("people", ID_B),
    partition(0, ID_B, directory=OTHER),
)
ELSEWHERE = replicas_of(0, 3, topic_id=ID_B, directories=[OTHER], version=1)


def broker(place: Path, *values: bytes, partitions: Sequence[str] = ("orders-0",)) -> Path:
    """A log directory of node 1 with these partitions and this metadata log."""
    place.mkdir()
    (place / "meta.properties").write_text(
        f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={uuid_text(DISK_1)}\n"
    )
    (place / ".kafka_cleanshutdown").write_text('{"version":0}')
    for name in partitions:
        (place / name).mkdir()
    if values:
        (place / METADATA_DIR).mkdir()
        log(place / METADATA_DIR, *values)
    return place


def found(log_dir: Path, *topics: str, records: Sequence[int] = ()) -> Replicas:
    """`records`: with one of the keys in orders-0, orders-1, and so on."""
    storage, log_dirs = LocalStorage(), survey_log_dirs(LocalStorage(), [str(log_dir)])
    settings, _ = with_metadata(Settings(), storage, log_dirs)
    counts = {TopicPartition("orders", number): count for number, count in enumerate(records)}
    return find_replicas(settings.metadata, log_dirs, partial(is_wanted, globs=topics), counts)


def result(replicas: Replicas, *, dry_run: bool = True) -> EraseResult:
    return EraseResult(
        run_id="r", dry_run=dry_run, keys=1, keys_found=1, partitions=(), replicas=replicas
    )


def text(replicas: Replicas, request: CommandLine, **more: bool) -> str:
    return printed(replicas_section(result(replicas, **more), request))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three partitions on brokers 1 to 3 in all, and a topic without a replica on broker 1."""
    return broker(
        tmp_path / "kafka",
        *ALL,
        replicas_of(0, 2, 1, directories=[OTHER, DISK_1], version=1),
        replicas_of(1, 1, 3, directories=[DISK_1, OTHER], version=1),
        ELSEWHERE,
        partitions=("orders-0", "orders-1", "orders-2"),
    )


def test_every_replica_is_named_with_its_broker_and_its_directory(three: Path) -> None:
    replicas = found(three, records=(7, 0))
    assert replicas.problem is None
    assert [
        (one.name, one.records, [(r.node_id, r.directory_id, r.log_dir) for r in one.replicas])
        for one in replicas.partitions
    ] == [
        ("orders-0", 7, [(1, uuid_text(DISK_1), str(three)), (2, uuid_text(OTHER), None)]),
        ("orders-1", 0, [(1, uuid_text(DISK_1), str(three)), (3, uuid_text(OTHER), None)]),
        ("orders-2", None, [(1, uuid_text(DISK_1), str(three))]),
        ("people-0", None, [(3, uuid_text(OTHER), None)]),
    ]
    assert dict(replicas.per_broker) == {1: 3, 2: 1, 3: 2}
    assert replicas.other_brokers == (2, 3)
    assert [one.name for one in found(three, "peo*").partitions] == ["people-0"]


def test_plan_has_the_order_and_ends_with_a_search_of_each_broker(three: Path) -> None:
    request = CommandLine(log_dirs=(str(three),), topics=("orders", "peo*"))
    page = text(found(three, records=(7,)), request)
    assert "on brokers 2 and 3, by __cluster_metadata-0 up to offset" in page
    assert f"orders-0              7  1, 2     {three}" in page
    assert "people-0              -  3        -" in page
    steps = [page.index(words) for words in ("1. Until", "2. First erase: broker 1", "3. Erase on")]
    assert steps == sorted(steps)
    assert "no reassignment, no new replica, no replaced disk" in page
    assert "4. After the last, broker 3: list the replicas again" in page
    last = page[page.index("5. Last") : page.index("     LOG_DIR stands")].rstrip()
    ends = "--key-hash CERTIFICATE --topics orders --topics 'peo*'"
    assert [line.strip() for line in last.splitlines()[1:]] == [
        f"broker 1: ./spark-submit.sh verify {three} {ends}",
        f"broker 2: ./spark-submit.sh verify LOG_DIR {ends}",
        f"broker 3: ./spark-submit.sh verify LOG_DIR {ends}",
    ]
    whole = in_json(to_json(result(found(three, records=(7,))), request))
    assert whole["order"] == [1, 2, 3]
    assert [one["command"] for one in whole["verify"]] == [
        line.strip().partition(": ")[2] for line in last.splitlines()[1:]
    ]
    assert whole["partitions"][0]["records"] == 7


def test_erasure_names_what_remains_and_its_certificate(three: Path) -> None:
    done = replace(result(found(three), dry_run=False), certificate="/srv/c/erasure-r.json")
    page = printed(replicas_section(done, CommandLine(log_dirs=(str(three),))))
    assert "2. Erased: broker 1" in page
    assert "partition" not in page
    assert f"verify {three} --key-hash /srv/c/erasure-r.json --topics '*'" in page


def test_reassignment_in_progress_stops_a_plan(three: Path, tmp_path: Path) -> None:
    moved = broker(
        tmp_path / "moved",
        *ALL,
        replicas_of(0, 4, 1, 2, removing=[2], adding=[4]),
    )
    replicas = found(moved, records=(0,))
    words = "1 partition is being reassigned: orders-0 to 4 from 2."
    for dry_run, begins, code in (
        (True, "DO NOT BEGIN", CorruptLogError.exit_code),
        (False, "ERASE AGAIN LATER", 0),
    ):
        assert f"{begins}: {words}" in text(replicas, CommandLine(), dry_run=dry_run)
        assert result(replicas, dry_run=dry_run).exit_code == code
    assert "reassigned" not in text(found(three), CommandLine())


def test_replica_of_this_broker_in_another_directory_is_reported(tmp_path: Path) -> None:
    log_dir = broker(tmp_path / "kafka", *ALL, replicas_of(1, 1, 3))
    page = text(found(log_dir), CommandLine())
    assert "NOT GIVEN: this broker has 3 partitions in log directories that are not here" in page
    assert "orders-1, orders-2, people-0" in " ".join(page.split())


def test_without_other_brokers_there_is_no_order(tmp_path: Path) -> None:
    log_dir = broker(tmp_path / "kafka", topic("orders"), partition(0, directory=DISK_1))
    page = text(found(log_dir), CommandLine())
    assert "none, by __cluster_metadata-0 up to offset" in page
    assert "order of work" not in page


def test_unknown_replicas_are_not_no_replicas(tmp_path: Path) -> None:
    page = text(found(broker(tmp_path / "zookeeper")), CommandLine())
    assert "unknown: no metadata log" in page
    assert "kafka-topics.sh --describe" in page
    broken = broker(tmp_path / "broken", *ALL)
    (broken / METADATA_DIR / f"{0:020d}.log").write_bytes(b"?" * 99)
    assert "unknown: " in text(found(broken), CommandLine())
