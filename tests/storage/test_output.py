"""`plan` and `clean --output` of log directories in S3 and HDFS."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.spark.runs import NOW, AtStage, clean, files_of, plan, run, settings
from tests.storage.s3 import SECRET_KEY
from winnow.cleaning.result import RunResult
from winnow.errors import StoppedError, UsageError, WinnowError
from winnow.runtime.stop import Stop
from winnow.storage.places import open_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ("c-tomb-0", "d-size-0", "t-closed-0", "__cluster_metadata-0")


def upload(directory: Path, url: str) -> None:
    store = open_tree(url)
    names = [name for name in files_of(directory) if (directory / name).is_file()]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda name: store.put(name, str(directory / name)), names):
            pass


def download(url: str, directory: Path) -> Path:
    store = open_tree(url)
    files = store.list_tree()
    for file in files:
        (directory / file.name).parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda file: store.fetch(file, str(directory / file.name)), files):
            pass
    return directory


def away(spark: SparkSession, source: str, *output: str, **more: object) -> RunResult:
    verb = clean if output else plan
    return verb(spark, [source], settings=settings(), now=NOW, output=output, **more)  # type: ignore[arg-type]


def test_remote_output_equals_an_in_place_clean(
    remote: str, spark: SparkSession, tmp_path: Path
) -> None:
    root = f"{remote}/{tmp_path.name}"
    local = copy_log_dir("clean", tmp_path / "local", only=SOME)
    upload(local, f"{root}/source")
    listed = open_tree(f"{root}/source").list_tree()
    (tmp_path / "work").mkdir()

    planned = away(spark, f"{root}/source", work_dir=str(tmp_path / "work"))
    result = away(
        spark,
        f"{root}/source",
        f"{root}/to/output",
        work_dir=str(tmp_path / "work"),
        work_space=2**20,
    )

    assert open_tree(f"{root}/source").list_tree() == listed
    assert [*(tmp_path / "work").iterdir()] == []
    assert {p.log_dir for p in (*planned.partitions, *result.partitions)} == {f"{root}/source"}
    assert [p.actions for p in planned.partitions] == [p.actions for p in result.partitions]
    assert all(p.error is None and p.actions != ("none",) for p in result.partitions)
    in_place = tmp_path / "in-place"
    copy_tree(local, in_place)
    run(clean, spark, in_place)
    found = download(f"{root}/to/output", tmp_path / "found")
    ours, theirs = files_of(found), files_of(in_place)
    assert ours.keys() == theirs.keys()
    for name, file in ours.items():
        if file is None or name.endswith("-checkpoint"):
            continue  # a directory; entries come in the order of the work, and a new file is of now
        other = theirs[name]
        assert other is not None
        assert file.digest == other.digest, name
        if name.endswith(".log"):
            assert file.mtime_ns // 10**6 == other.mtime_ns // 10**6, name
    with pytest.raises(UsageError, match="the destination is not empty"):
        away(spark, f"{root}/source", f"{root}/to/output", begin_again=True)


def test_interrupted_output_is_restarted(s3: str, spark: SparkSession, tmp_path: Path) -> None:
    local = copy_log_dir("clean", tmp_path / "local", only=SOME)
    output = f"{s3}/{tmp_path.name}"
    stop = Stop()
    at_writing = AtStage("writing to", lambda: stop.request("by a test"))
    with pytest.raises(StoppedError, match="--begin-again"):
        away(spark, str(local), output, progress=at_writing, stop=stop)
    with pytest.raises(UsageError, match="has not finished"):
        away(spark, output)
    with pytest.raises(UsageError, match="--begin-again"):
        away(spark, str(local), output)
    away(spark, str(local), output, begin_again=True)
    assert ".winnow-unfinished" not in open_tree(output).list_top()
    assert "meta.properties" in open_tree(output).list_top()


def test_tiered_storage_bucket_is_neither_read_nor_written(
    s3: str, spark: SparkSession, tmp_path: Path
) -> None:
    """With the layout of Aiven's plug-in for S3."""
    local = copy_log_dir("clean", tmp_path / "local", only=("d-size-0",))
    tiered = f"{s3}/{tmp_path.name}/tiered"
    name = "topic-oKqdTxTqT0q8Rz5xKJpv2A/0/00000000000000000023-tqimKeZwStOEOwRzT3L5oQ.rsm-manifest"
    open_tree(tiered).create(name, b"{}")
    before = open_tree(s3).list_tree()
    with pytest.raises(UsageError, match="tiered storage"):
        away(spark, tiered)
    for output in (tiered, f"{tiered}/cleaned", f"{tiered}/deep/cleaned"):
        with pytest.raises(UsageError, match="tiered storage"):
            away(spark, str(local), output)
    assert open_tree(s3).list_tree() == before
    open_tree(tiered).delete(name)


def test_unreachable_place_is_reported(s3: str, spark: SparkSession) -> None:
    assert s3
    with pytest.raises(WinnowError, match="s3://no-such-bucket/x: S3 answers NoSuchBucket"):
        away(spark, "s3://no-such-bucket/x", f"{s3}/output")
    with pytest.raises(OSError, match="NoSuchBucket"):
        away(spark, "s3://no-such-bucket/x")


def test_no_secret_is_shown(s3: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-bucket") as caught:
        open_tree("s3://no-such-bucket/x").list_tree()
    assert "NoSuchBucket" in str(caught.value)
    for text in (str(caught.value), repr(open_tree(f"{s3}/{tmp_path.name}"))):
        assert SECRET_KEY not in text
        assert os.environ["AWS_ACCESS_KEY_ID"] not in text
    with pytest.raises(UsageError) as refused:
        open_tree("s3://AKIAXXXX:verysecret@bucket/x")
    assert "verysecret" not in str(refused.value)


@pytest.mark.slow
def test_refusal_shows_only_its_code(gateway: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(OSError, match="SignatureDoesNotMatch") as caught:
        open_tree(f"{gateway}/x").list_tree()
    assert os.environ["AWS_ACCESS_KEY_ID"] not in str(caught.value)
    assert caught.value.__suppress_context__
