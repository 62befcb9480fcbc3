"""Winnow's command line, run in this process."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import pytest

from tests.session import verbs_use
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.versions.story import Command


def command_of(spark: SparkSession, patch: pytest.MonkeyPatch) -> Command:
    """A verb with its arguments -> exit code and standard output."""
    verbs_use(spark, patch)

    def command(*words: str) -> tuple[int, str]:
        out = io.StringIO()
        with redirect_stdout(out):
            code = run([*words, "--quiet"])
        return code, out.getvalue()

    return command
