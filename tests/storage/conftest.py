"""The storage servers: one each for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from tests.crash.conftest import alone, crash_run
from tests.storage.hdfs import hdfs
from tests.storage.s3 import BUCKET, environment, moto, versitygw
from winnow.storage.places import _remote
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import bucket_and_key
from winnow.storage.s3.storage import S3Storage

__all__ = ["alone", "crash_run"]


@pytest.fixture(scope="package")
def _moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="package")
def _versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture
def s3(_moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket in moto."""
    return connected(_moto, monkeypatch)


@pytest.fixture
def gateway(_versitygw: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket in versitygw."""
    return connected(_versitygw, monkeypatch)


def connected(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let this process and Spark's workers use a server. Return the root of its bucket."""
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
        # Its workers have the environment that it began with.
        if SparkContext._active_spark_context is not None:
            monkeypatch.setitem(SparkContext._active_spark_context.environment, name, value)
    _remote.cache_clear()  # connected to another server
    return f"s3://{BUCKET}"


@pytest.fixture(scope="package")
def name_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs") / "home") as url:
        yield url


@pytest.fixture(
    params=[
        "s3",
        pytest.param("gateway", marks=pytest.mark.slow),
        pytest.param("name_node", marks=pytest.mark.slow),
    ]
)
def remote(request: pytest.FixtureRequest) -> str:
    """The root of a place that is not on this machine."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture(params=["s3", pytest.param("gateway", marks=pytest.mark.slow), "name_node"])
def leased(request: pytest.FixtureRequest) -> str:
    """The root of a place where a lease stands for the lock."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture(params=["s3", pytest.param("gateway", marks=pytest.mark.slow)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory in S3."""
    return f"{request.getfixturevalue(request.param)}/{tmp_path.name}"


@pytest.fixture
def bucket(root: str) -> S3Bucket:
    return S3Bucket(bucket_and_key(root)[0])


@pytest.fixture
def storage(bucket: S3Bucket) -> S3Storage:
    return S3Storage(bucket)


@pytest.fixture
def reader(root: str) -> S3Storage:
    """That of another process."""
    return S3Storage(S3Bucket(bucket_and_key(root)[0]))
