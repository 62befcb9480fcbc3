"""Runs to be stopped. Each is made once per session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.runs import Case, CrashRun, record_run
from tests.crash.small_log import (
    GROUP_BYTES,
    HOUR_MS,
    INTERVAL_BYTES,
    NAME,
    NOW,
    make_small_log,
    time_of,
)
from tests.crash.transactional_log import TWO_SEGMENTS, make_transactional_log
from tests.crash.two import Alone, two_alone
from tests.crash.unchanged_log import INTERVAL, SEGMENT_BYTES, make_unchanged_log
from tests.fixtures.data import copy_log_dir
from tests.kafka.judge.judge import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = {
    "internal.segment.bytes": GROUP_BYTES,
    "index.interval.bytes": INTERVAL_BYTES,
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": 24 * HOUR_MS,
}
CASES = {
    "compact": Case("compact", NAME, NOW, _SMALL | {"cleanup.policy": "compact"}),
    # What the first two groups become is too old.
    "compact,delete": Case(
        "compact,delete",
        NAME,
        NOW,
        _SMALL | {"cleanup.policy": "compact,delete", "retention.ms": NOW - time_of(4)},
    ),
    # Everything is too old, what was compacted as well.
    "all too old": Case(
        "all too old", NAME, NOW, _SMALL | {"cleanup.policy": "compact,delete", "retention.ms": 1}
    ),
    # Everything is too old, the active segment as well.
    "delete": Case(
        "delete", NAME, NOW, _SMALL | {"cleanup.policy": "delete", "retention.ms": 1000}
    ),
    # The same, with `--keep-replaced`.
    "kept": Case(
        "kept",
        NAME,
        NOW,
        _SMALL | {"cleanup.policy": "compact,delete", "retention.ms": NOW - time_of(4)},
        keep=True,
    ),
    "kept, all deleted": Case(
        "kept, all deleted",
        NAME,
        NOW,
        _SMALL | {"cleanup.policy": "delete", "retention.ms": 1000},
        keep=True,
    ),
    "kept, compact": Case(
        "kept, compact", NAME, NOW, _SMALL | {"cleanup.policy": "compact"}, keep=True
    ),
    "kept, transactions": Case(
        "kept, transactions",
        NAME,
        NOW,
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": TWO_SEGMENTS,
            "min.cleanable.dirty.ratio": 0,
        },
        keep=True,
    ),
    # Every other segment stays as it is.
    "unchanged": Case(
        "unchanged",
        NAME,
        NOW,
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": SEGMENT_BYTES,
            "index.interval.bytes": INTERVAL,
            "min.cleanable.dirty.ratio": 0,
        },
    ),
    # Written by a real broker.
    "recorded": Case(
        "recorded",
        "c-tomb-0",
        1_795_300_000_000,
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": 8192,
            "min.cleanable.dirty.ratio": 0,
        },
    ),
    "transactions": Case(
        "transactions",
        NAME,
        NOW,
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": TWO_SEGMENTS,
            "min.cleanable.dirty.ratio": 0,
        },
    ),
}


@pytest.fixture(scope="session")
def crash_run(
    spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], CrashRun]:
    """The run of a case of CASES by its name, made when first asked for."""
    made: dict[str, CrashRun] = {}

    def run(name: str) -> CrashRun:
        if name not in made:
            case, scratch = CASES[name], tmp_path_factory.mktemp("crash-run")
            made[name] = record_run(spark, _log_dir(case, scratch / "before", kafka), case, scratch)
        return made[name]

    return run


@pytest.fixture(scope="session")
def alone(
    spark: SparkSession,
    crash_run: Callable[[str], CrashRun],
    tmp_path_factory: pytest.TempPathFactory,
) -> Alone:
    """`two_alone` of a case of CASES by its name, made when first asked for."""
    made: dict[str, tuple[Path, dict[str, CrashRun]]] = {}

    def of(name: str) -> tuple[Path, dict[str, CrashRun]]:
        if name not in made:
            made[name] = two_alone(spark, crash_run(name), tmp_path_factory.mktemp("two"))
        return made[name]

    return of


def _log_dir(case: Case, target: Path, kafka: Kafka) -> Path:
    if case.name == "recorded":
        return copy_log_dir("clean", target, only=[case.partition])
    if "transactions" in case.name:
        return make_transactional_log(target)
    if case.name == "unchanged":
        return make_unchanged_log(target)
    return make_small_log(target, kafka, log_start_offset=1 if case.deletes else 0)
