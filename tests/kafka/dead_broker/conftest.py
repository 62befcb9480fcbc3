"""Clients that fill a disk, and Winnow's command in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.disks import NoDiskError, small_disk
from tests.kafka.dead_broker.load import Load
from tests.kafka.dead_broker.sre import Run, in_this_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    try:
        with small_disk(tmp_path_factory.mktemp("disk") / "disk", mib=1):
            pass
    except NoDiskError as error:
        # `test_all_in_a_user_namespace` runs them then, where that is allowed.
        pytest.skip(f"no file system can be mounted here: {error}")
    with Load() as clients:
        yield clients


@pytest.fixture
def in_process(spark: SparkSession) -> Run:
    return in_this_process(spark)
