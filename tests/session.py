"""The command line over a Spark session that is reused."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.sql import SparkSession

import winnow.cli.main  # noqa: F401 - loads what is to be patched
from tests.one_page import checked
from winnow.cli import doctor
from winnow.cli.out import Line


def verbs_use(spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
    """Every verb runs in this session, and leaves it open. Each diagnosis must fit one page, also
    where a test looks at the details.
    """
    whole = {name: vars(doctor)[name] for name in ("page", "one_page")}

    def fitting(name: str) -> Callable[..., list[Line]]:
        def page(*shown: Any) -> list[Line]:
            checked(*shown)
            return [*whole[name](*shown)]

        return page

    for name in whole:
        patch.setattr(doctor, name, fitting(name))
    for name, module in list(sys.modules.items()):
        if name.startswith("winnow.cli.") and hasattr(module, "started_spark"):
            patch.setattr(module, "started_spark", lambda **_: nullcontext(spark))
