"""An erasure that can't reach, prove or do everything tells so: in its result, its exit code, the
ledger and the certificate.
"""

from __future__ import annotations

import errno
import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.runs import read_log
from tests.disks import disk_or_skip, free_bytes
from tests.fixtures.data import copy_log_dir, copy_tree
from tests.spark.runs import changes, files_of
from winnow.api import erase, erasures, history, verify_key_hashes
from winnow.runtime.stop import Stop
from winnow.verbs.erase.values import EraseResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITION = "c-tomb-0"


def recorded(root: Path) -> tuple[Path, bytes]:
    """A log directory with one partition, and a key that its active segment does not have."""
    log_dir = copy_log_dir("clean", root / "log-dir", only=[PARTITION])
    records = read_log(log_dir / PARTITION).records
    active = max(int(path.stem) for path in (log_dir / PARTITION).glob("*.log"))
    kept = {record.key for record in records if record.offset >= active}
    return log_dir, min({record.key for record in records if record.key} - kept)


def test_result_names_replicas_that_were_not_searched(spark: SparkSession, tmp_path: Path) -> None:
    log_dir, key = recorded(tmp_path)
    kinds = ("future", "stray", "delete")
    names = [f"c-tomb-{n}.{n:032x}-{kind}" for n, kind in enumerate(kinds)]
    for name in names:
        copy_tree(log_dir / PARTITION, log_dir / name)
    before = files_of(log_dir / names[0])
    place, ledger = tmp_path / "certificates", str(tmp_path / "ledger")
    place.mkdir()
    result = erase(spark, [str(log_dir)], keys=[key], certificate=str(place), ledger=ledger)
    assert (result.status, result.exit_code, result.proven) == ("partial", 3, None)
    found = [one.partition(": ")[0] for one in result.not_searched]
    assert found == [f"{log_dir}/{name}" for name in names]
    assert changes(before, files_of(log_dir / names[0])) == []
    certificate = result.certificate or ""
    content = json.loads(Path(certificate).read_text())
    assert content["status"] == "partial"
    assert content["left"] == [f"not searched: {one}" for one in result.not_searched]
    [row] = erasures(spark, ledger).collect()
    assert (row.status, row.exit_code) == ("partial", 3)
    told = [one.error for one in row.partitions if one.topic is None]
    assert told == [f"not searched: {one}" for one in result.not_searched]
    assert not [note for note in result.notes if "not searched" in note]
    [past] = history(spark, ledger, topics=["c-tomb"]).erasures
    assert (past.partitions, past.status) == (1, "partial")
    again = verify_key_hashes(
        spark,
        [str(log_dir)],
        key_hash=result.run_id,
        ledger=ledger,
        hash_key=certificate.replace(".json", ".hash-key"),
    )
    assert (again.found, again.not_searched) == (0, result.not_searched)
    (log_dir / "not Kafka's").mkdir()
    checked = verify_key_hashes(spark, [str(log_dir)], key_hash=certificate)
    assert (checked.found, checked.status, checked.exit_code) == (0, "partial", 3)
    assert checked.not_searched == result.not_searched
    second = tmp_path / "second"
    copy_tree(log_dir, second)
    for name in names:
        shutil.rmtree(log_dir / name)
        shutil.rmtree(second / name)
    copy_tree(log_dir / PARTITION, log_dir / "c-tomb-7")
    both = verify_key_hashes(
        spark, [str(log_dir), str(second)], key_hash=certificate, topics=["*", "x"]
    )
    assert both.topics == ("c-tomb",), "those that were searched, and no globs"
    assert {one.partition for one in both.segments} == {7}
    assert [one.split(":")[0] for one in both.not_searched] == [
        "partition c-tomb-0 has several directories"
    ]
    assert (both.status, both.exit_code) != ("done", 0)


def test_erasure_that_is_stopped_in_its_proof_is_recorded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long(*_: object, **__: object) -> object:
        stop.request("for a test")
        spark.sparkContext.parallelize([60], 1).foreach(time.sleep)
        return pytest.fail("its job was not cancelled")

    monkeypatch.setattr("winnow.verbs.erase.erase.prove", long)
    stop, (log_dir, key), ledger = Stop(), recorded(tmp_path), str(tmp_path / "ledger")
    result = erase(spark, [str(log_dir)], keys=[key], ledger=ledger, stop=stop)
    check_unproven(spark, result, ledger, "the run was stopped, for a test")


def test_erasure_whose_proof_fails_is_recorded(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("winnow.verbs.erase.erase.prove", full)
    (log_dir, key), ledger = recorded(tmp_path), str(tmp_path / "ledger")
    result = erase(spark, [str(log_dir)], keys=[key], ledger=ledger)
    check_unproven(spark, result, ledger, "not enough space")


def check_unproven(spark: SparkSession, result: EraseResult, ledger: str, why: str) -> None:
    [partition] = result.partitions
    assert f"it is not proven what was erased: {why}" in (partition.error or "")
    assert (result.proven, result.status, result.exit_code) == (None, "partial", 3)
    assert partition.erased is not None
    assert partition.erased.records > 0
    assert result.hash_key is not None
    [row] = erasures(spark, ledger).collect()
    [told] = row.partitions
    assert (row.proven, told.records_erased) == (None, partition.erased.records)
    assert told.segments_rewritten == partition.segments_with_matches > 0


def test_without_room_nothing_is_rewritten(spark: SparkSession, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        log_dir, key = recorded(disk)
        before = files_of(log_dir)
        (disk / "fill").write_bytes(bytes(free_bytes(disk) - 8192))
        result = erase(spark, [str(log_dir)], keys=[key], ledger=ledger)
        assert changes(before, files_of(log_dir)) == []
    assert (result.proven, result.status, result.exit_code) == (None, "partial", 6)
    [row] = erasures(spark, ledger).collect()
    assert (row.partitions[0].records_erased, row.partitions[0].segments_rewritten) == (0, 0)
