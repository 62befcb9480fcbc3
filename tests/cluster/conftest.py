"""One log directory for all runs, and the result of an undisturbed run on `local[2]`."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.kill.fields import make_field
from tests.kill.kills import Field


@pytest.fixture(scope="session")
def field(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Field:
    return make_field(spark, tmp_path_factory.mktemp("cluster"))
