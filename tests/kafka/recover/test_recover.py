"""`recover --truncate` leaves what Kafka's LogLoader and a clean close leave (S8.9)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kafka.judge.judge import Kafka
from tests.kafka.recover.compare import (
    EXPIRATION_MS,
    INTERVAL_BYTES,
    NOW,
    assert_same_log_dir,
    compare_tails,
    log_dir_of_tails,
    recover_with_winnow,
    sources,
    without_topic_ids,
)
from winnow.logdir.names import CLEAN_SHUTDOWN, LOG, RECOVERY_POINT_CHECKPOINT, SNAPSHOT

TAILS = 300


@pytest.fixture(scope="module")
def among(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return sources(tmp_path_factory.mktemp("sources"))


def test_damaged_logs_end_as_kafka_leaves_them(
    kafka: Kafka, tmp_path: Path, among: tuple[Path, ...]
) -> None:
    compared = compare_tails(kafka, tmp_path, range(TAILS), among)
    assert compared.different == []
    assert compared.refused == []
    assert compared.lost > 0
    assert compared.same > 0.9 * TAILS
    assert compared.cut > 0.4 * TAILS
    assert 0 < compared.left_by_clean < 0.4 * TAILS


def test_log_directory_ends_as_log_manager_leaves_it(
    kafka: Kafka, tmp_path: Path, among: tuple[Path, ...]
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    log_dir_of_tails(ours, range(40), among, all_logs=True)
    shutil.copytree(ours, theirs)
    result = recover_with_winnow(ours)
    assert [log.error for log in result.logs if log.error] == []
    assert result.marked
    kafka.recover(
        theirs,
        now=NOW,
        index_interval=INTERVAL_BYTES,
        producer_expiration_ms=EXPIRATION_MS,
        threads=2,
    )
    assert_same_log_dir(ours, theirs)


@pytest.mark.parametrize("name", ["clean", "legacy", "damaged"])
def test_recorded_directory_without_checkpoints_ends_as_log_manager_leaves_it(
    name: str, kafka: Kafka, tmp_path: Path
) -> None:
    from tests.fixtures.data import copy_log_dir  # noqa: PLC0415

    ours, theirs = (copy_log_dir(name, tmp_path / who) for who in ("ours", "theirs"))
    for log_dir in (ours, theirs):
        (log_dir / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        (log_dir / RECOVERY_POINT_CHECKPOINT).write_bytes(b"")
        shutil.rmtree(log_dir / "__cluster_metadata-0", ignore_errors=True)
        without_topic_ids(log_dir)
    assert recover_with_winnow(ours).marked
    kafka.recover(
        theirs, now=NOW, index_interval=INTERVAL_BYTES, producer_expiration_ms=EXPIRATION_MS
    )
    assert_same_log_dir(ours, theirs)


def test_recovery_of_a_recovered_directory_changes_no_log_and_no_index(
    tmp_path: Path, among: tuple[Path, ...]
) -> None:
    """Snapshots may change: like a broker, it removes one at the log start and then misses it."""
    log_dir_of_tails(tmp_path / "logs", range(20), among)
    recover_with_winnow(tmp_path / "logs")
    (tmp_path / "logs" / CLEAN_SHUTDOWN).unlink()
    again = recover_with_winnow(tmp_path / "logs")
    assert again.marked
    plans = [log.loaded.truncation for log in again.logs if log.loaded is not None]
    assert len(plans) == 20
    for plan in plans:
        assert (plan.cuts, plan.removed) == ((), ())
        assert all(name.endswith(SNAPSHOT) for name in plan.files)
        assert plan.leader_epochs is None


def test_log_that_cannot_be_recovered_is_left_alone_and_no_marker_is_written(
    tmp_path: Path, among: tuple[Path, ...]
) -> None:
    log_dir_of_tails(tmp_path / "logs", range(4), among)
    last = max((tmp_path / "logs" / "t-0").glob(f"*{LOG}"))
    (tmp_path / "logs" / "t-0" / "not-an-offset.log").write_bytes(b"")
    before = {path.name: path.read_bytes() for path in last.parent.iterdir() if path.is_file()}
    result = recover_with_winnow(tmp_path / "logs")
    after = {path.name: path.read_bytes() for path in last.parent.iterdir() if path.is_file()}
    assert before == after
    assert [log.name for log in result.logs if log.error] == ["t-0"]
    assert not result.marked
    assert not (tmp_path / "logs" / CLEAN_SHUTDOWN).exists()


def test_moved_and_stray_replicas_are_recovered_and_deleted_ones_left_to_the_broker(
    kafka: Kafka, tmp_path: Path, among: tuple[Path, ...]
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    log_dir_of_tails(ours, range(50, 56), among)
    marked = {50: "future", 51: "stray", 52: "delete"}
    for seed, kind in marked.items():
        (ours / f"t-{seed}").rename(ours / f"t-{seed}.{'ab' * 16}-{kind}")
    deleted = next(ours.glob("*-delete"))
    shutil.copytree(ours, theirs)
    before = {path.name: path.read_bytes() for path in deleted.iterdir()}
    result = recover_with_winnow(ours)
    assert result.marked
    assert len(result.logs) == 5
    assert {path.name: path.read_bytes() for path in deleted.iterdir()} == before
    kafka.recover(
        theirs,
        now=NOW,
        index_interval=INTERVAL_BYTES,
        producer_expiration_ms=EXPIRATION_MS,
    )
    # A broker removes a stray replica later, and does not close it when it stops.
    stray = next(theirs.glob("*-stray"))
    for path in stray.glob(f"*{LOG}"):
        assert (ours / stray.name / path.name).read_bytes() == path.read_bytes()
    for log_dir in (ours, theirs):
        for kind in ("delete", "stray"):
            shutil.rmtree(next(log_dir.glob(f"*-{kind}")))
    assert_same_log_dir(ours, theirs)


def test_idle_producers_are_forgotten_as_by_kafka(
    kafka: Kafka, tmp_path: Path, among: tuple[Path, ...]
) -> None:
    """Recorded producers were last seen before `NOW`; each expiration forgets others."""
    many = [path for path in among if path.name.startswith(("m-", "t-", "b-txn"))]
    for seconds in (1, 3600, 10_000_000):
        root = tmp_path / str(seconds)
        compared = compare_tails(
            kafka, root, range(100, 140), many, expiration_ms=min(seconds * 1000, 2**31 - 1)
        )
        assert compared.different == []
        assert compared.same > 30
