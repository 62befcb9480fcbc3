"""One log directory for all runs, and what an undisturbed run on `local[2]` makes of it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.kill.kills import Field
from tests.kill.run import make_field


@pytest.fixture(scope="session")
def field(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Field:
    return make_field(spark, tmp_path_factory.mktemp("cluster"))
