"""The places: a server each for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.hdfs import hdfs
from tests.storage.s3 import environment, make_bucket, s3_server


@pytest.fixture(scope="package")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("s3")
    with s3_server(home / "log") as server, pytest.MonkeyPatch.context() as patch:
        make_bucket(server, "bucket")
        for name, value in environment(server).items():
            patch.setenv(name, value)
        yield "s3://bucket"


@pytest.fixture(scope="package")
def name_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs") / "home") as url:
        yield url
