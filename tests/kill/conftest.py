"""One log directory for all kills, and the result of an undisturbed run on it. Both lie where a
temporary file lies, which is mostly a disk: the files of other tests may lie in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pyspark.sql import SparkSession

from tests.kill.fields import make_field
from tests.kill.kills import Field


@pytest.fixture(scope="session")
def field(spark: SparkSession) -> Iterator[Field]:
    with TemporaryDirectory(prefix="winnow-kill-") as path:
        yield make_field(spark, Path(path))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="winnow-kill-") as path:
        yield Path(path)
