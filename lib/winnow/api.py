"""Winnow's Python API: `plan` and `clean` Kafka log directories with a SparkSession of the caller's.

from winnow.api import clean, plan
from winnow.policy.sources import Settings, parse_topic_configs

settings = Settings(topic_configs=parse_topic_configs(text))
result = clean(spark, ["/var/lib/kafka"], settings=settings, now=1_795_300_000_000)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal

from winnow.engine import report
from winnow.engine.clean import carry_out
from winnow.engine.prepare import LeftAlone, Request, prepare
from winnow.engine.progress import Progress, Silence
from winnow.engine.result import RunResult
from winnow.logdir.listing import LogDir, survey_log_dirs
from winnow.logdir.lock import lock_log_dir
from winnow.policy.sources import Settings
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Only = Literal["retention", "compaction"]


def plan(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str] = (),
    only: Only | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """What `clean` would do with these log directories and why. Changes nothing in them.

    `now`: the clock of every decision, ms since the epoch. `topics`: globs, all topics if there are none.
    Raises UsageError for what is not a Kafka log directory and LogDirInUseError where a broker runs on one.
    """
    return _run(spark, log_dirs, "plan", settings=settings, now=now, topics=topics, only=only, progress=progress)


def clean(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str] = (),
    only: Only | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Applies each topic's cleanup policy to these log directories, as Kafka would (arguments as for `plan`).

    A partition that can't be understood, or whose policy is not known, is left as it is and reported.
    """
    return _run(spark, log_dirs, "clean", settings=settings, now=now, topics=topics, only=only, progress=progress)


def _run(
    spark: SparkSession,
    log_dirs: Sequence[str],
    verb: str,
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str],
    only: Only | None,
    progress: Progress | None,
) -> RunResult:
    progress = progress or Silence()
    run_id = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
    request = Request(settings=settings, topics=tuple(topics), now=now, only=only, touch=verb == "clean")
    with _locked(log_dirs) as dirs:
        progress.stage(f"looking at {sum(len(d.partitions) for d in dirs)} partitions")
        prepared = prepare(spark.sparkContext, dirs, request)
        if verb == "clean":
            results = carry_out(spark.sparkContext, prepared, request, run_id=run_id, progress=progress)
        else:
            results = [
                report.left_alone(item) if isinstance(item, LeftAlone) else report.foreseen(item) for item in prepared
            ]
        notes = (*settings.notes(), *(f"{d.path}/{s.name} is left alone: {s.why}" for d in dirs for s in d.skipped))
    return RunResult(run_id=run_id, verb=verb, now=now, partitions=tuple(results), notes=notes)


@contextmanager
def _locked(log_dirs: Sequence[str]) -> Iterator[Sequence[LogDir]]:
    """The log directories, looked at again once nobody else can change them."""
    storage = LocalStorage()
    with ExitStack() as locks:
        # First without the lock: `.lock` is made only where a broker would have made it.
        for log_dir in survey_log_dirs(storage, log_dirs):
            locks.enter_context(lock_log_dir(log_dir.path))
        yield survey_log_dirs(storage, log_dirs)
