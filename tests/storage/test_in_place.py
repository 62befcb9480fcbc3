"""Every verb works in place on log directories that are not on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.spark.runs import NOW, AtStage, File, clean, files_of, plan, settings, stray_files
from tests.storage.test_output import download, upload
from winnow.api import doctor, erase, explain, recover, verify
from winnow.cleaning.result import RunResult
from winnow.errors import UsageError
from winnow.kafka_log.source import register
from winnow.logdir import lease
from winnow.storage.lease_file import LEASE
from winnow.storage.places import Places, storage_of
from winnow.verbs.inspect.directories import describe_target, find_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ("c-tomb-0", "c-plain-0", "d-size-0", "t-closed-0", "__cluster_metadata-0")
ONE_IN_CI = pytest.mark.parametrize(
    "leased",
    ["s3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gateway", "name_node"))],
    indirect=True,
)
OF_NOW = ("-checkpoint", ".txnindex")
"""Suffixes of files that are rewritten and get the current time."""


@pytest.fixture
def pair(request: pytest.FixtureRequest, leased: str, tmp_path: Path) -> tuple[Path, str]:
    """The same log directory here and there, of one partition unless the test says otherwise."""
    local = copy_log_dir("clean", tmp_path / "local", only=getattr(request, "param", ("c-tomb-0",)))
    url = storage_of(leased).canonical(f"{leased}/{tmp_path.name}/log-dir")
    upload(local, url)
    return local, url


def in_place(verb: Any, spark: SparkSession, log_dir: Path | str, **more: Any) -> RunResult:
    result: RunResult = verb(spark, [str(log_dir)], settings=settings(), now=NOW, **more)
    return result


@ONE_IN_CI
def test_run_that_loses_its_lease_changes_nothing_more_and_ends_with_5(
    pair: tuple[Path, str],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    local, url = pair
    monkeypatch.setattr(lease, "LENGTH_S", 1.5)

    def lose() -> None:
        storage_of(url).unlink(f"{url}/{LEASE}")
        time.sleep(2)

    result = in_place(clean, spark, url, progress=AtStage("compacting", lose))
    assert (result.status, result.exit_code) == ("partial", 5)
    (partition,) = result.partitions
    assert partition.code == "in-use"
    assert "the lease on" in (partition.error or "")
    assert "Traceback" not in caplog.text
    left = contents(download(url, tmp_path / "left"))
    assert {name: left[name] for name in contents(local)} == contents(local)


def told(result: RunResult) -> list[tuple[object, ...]]:
    return [
        (p.topic, p.partition, p.actions, p.bytes_after, p.records_removed, p.rule, p.error)
        for p in result.partitions
    ]


def contents(directory: Path) -> dict[str, tuple[str, int | None]]:
    """Digest and modification time in ms of every file."""
    found: dict[str, tuple[str, int | None]] = {}
    for name, file in files_of(directory).items():
        if isinstance(file, File):
            found[name] = file.digest, None if name.endswith(OF_NOW) else file.mtime_ns // 10**6
    return found


@pytest.mark.parametrize("pair", [SOME], indirect=True)
def test_clean_equals_clean_of_local_directory(
    pair: tuple[Path, str], spark: SparkSession, tmp_path: Path
) -> None:
    local, url = pair
    planned = in_place(plan, spark, url, estimate=True)
    assert contents(download(url, tmp_path / "planned")) == contents(local)
    assert told(planned) == told(in_place(plan, spark, local, estimate=True))

    result = in_place(clean, spark, url)
    here = in_place(clean, spark, local)

    assert told(result) == told(here)
    assert {p.log_dir for p in (*planned.partitions, *result.partitions)} == {url}
    assert sum("compacted" in p.actions for p in result.partitions) >= 2
    found = download(url, tmp_path / "found")
    assert stray_files(found) == []
    assert contents(found) == contents(local)
    assert told(in_place(clean, spark, url)) == told(in_place(clean, spark, local))


@ONE_IN_CI
def test_reading_verbs_equal_those_on_local_directory(
    pair: tuple[Path, str], spark: SparkSession
) -> None:
    local, url = pair
    before = contents_there(url)
    swept, here = (verify(spark, [str(log_dir)]) for log_dir in (url, local))
    assert (swept.status, swept.checked) == (here.status, here.checked)
    assert [f.kind for f in swept.findings] == [f.kind for f in here.findings]
    diagnosis = doctor(spark, [url], settings=settings(), now=NOW)
    assert [disk.log_dir for disk in diagnosis.disks] == [url]
    explained, here_too = (
        explain(spark, [str(log_dir)], partition="c-tomb-0", offset=3, settings=settings(), now=NOW)
        for log_dir in (url, local)
    )
    assert explained.records == here_too.records
    target = find_target(Places(), f"{url}/c-tomb-0")
    assert {
        file.path.rpartition("/")[0] for file in describe_target(Places(), target, records=True)
    } == {f"{url}/c-tomb-0"}
    register(spark)
    read, read_here = (
        spark.read.format("kafka-log")
        .load(str(log_dir))
        .select("topic", "offset", "key", "value")
        .collect()
        for log_dir in (url, local)
    )
    assert sorted(read) == sorted(read_here)
    assert len(read) > 100
    assert recover([url], dry_run=True).status == recover([str(local)], dry_run=True).status
    assert contents_there(url) == before


def contents_there(url: str) -> list[tuple[object, ...]]:
    storage = Places()
    found: list[tuple[object, ...]] = []
    for entry in storage.list_dir(url):
        found.append((url, entry.name, entry.size, entry.mtime_ns))
        if entry.is_dir:
            found += contents_there(f"{url}/{entry.name}")
    return found


@ONE_IN_CI
def test_erase_equals_erase_of_local_directory(
    pair: tuple[Path, str], spark: SparkSession, tmp_path: Path
) -> None:
    local, url = pair
    register(spark)
    first = spark.read.format("kafka-log").load(f"{url}/c-tomb-0").where("key IS NOT NULL").first()
    assert first is not None
    there, here = (
        erase(spark, [str(log_dir)], keys=[bytes(first["key"])]) for log_dir in (url, local)
    )
    assert (there.keys_found, there.proven, there.status) == (1, True, here.status)
    assert contents(download(url, tmp_path / "found")) == contents(local)


def test_keep_replaced_is_refused_without_hard_links(name_node: str, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="no links"):
        in_place(clean, spark, f"{name_node}/log-dir", keep_replaced=True)


def test_local_and_remote_directory_are_cleaned_together(
    pair: tuple[Path, str], spark: SparkSession, tmp_path: Path
) -> None:
    """Disks of one broker: some local, some copied to other storage."""
    local, url = pair
    other = tmp_path / "other"
    copy_tree(local, other)
    result = plan(spark, [str(other), url], settings=settings(), now=NOW)
    assert {partition.code for partition in result.partitions} == {"in-two-directories"}
