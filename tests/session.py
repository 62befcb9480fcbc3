"""The command line over a Spark session that is reused."""

import sys
from contextlib import nullcontext

import pytest
from pyspark.sql import SparkSession

import winnow.cli.main  # noqa: F401 - loads what is to be patched


def verbs_use(spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
    """Every verb runs in this session, and leaves it open."""
    for name, module in list(sys.modules.items()):
        if name.startswith("winnow.cli.") and hasattr(module, "started_spark"):
            patch.setattr(module, "started_spark", lambda **_: nullcontext(spark))
