"""The verbs as a notebook has them: settings by file name or as mappings, and now is now."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from winnow import api
from winnow.clean.plan.prepare import OnCorrupt
from winnow.clean.run import Only, UncleanShutdown
from winnow.clock import now_ms
from winnow.ledger.place import default_ledger
from winnow.policy.sources import Settings
from winnow.runtime.progress import Progress
from winnow.values.facts import Facts
from winnow.values.plans import Plan
from winnow.values.result import Result
from winnow.values.settings import Sources, Values, listed
from winnow.verbs.explain.values import Explanation
from winnow.verbs.verify.verify import SweepResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def plan(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    *,
    settings: Settings | None = None,
    server_properties: str | Sequence[str] | None = None,
    topic_configs: str | None = None,
    sets: Values | None = None,
    topic_sets: Mapping[str, Values] | None = None,
    now: int | None = None,
    topics: str | Sequence[str] = (),
    only: Only | None = None,
    unclean_shutdown: UncleanShutdown = "refuse",
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    estimate: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """What a cleaning would do and why. Changes nothing.

    `server_properties`, `topic_configs`: names of Kafka's files; of several brokers one
    `server_properties` for each. `sets`: `{"log.retention.ms": 1}`. `topic_sets`: `{"orders*":
    {"retention.ms": 1}}`. Or `settings`, alone. `now`: ms since the epoch, the present if not
    given. All else, and what is raised, as for `winnow.api.plan`.
    """
    sources = Sources(
        settings=settings,
        server_properties=server_properties,
        topic_configs=topic_configs,
        sets=sets,
        topic_sets=topic_sets,
    )
    facts = Facts(spark, listed(log_dirs))
    run = api.plan(
        spark,
        facts.log_dirs,
        settings=sources.parsed(),
        now=now_ms() if now is None else now,
        topics=listed(topics),
        only=only,
        unclean_shutdown=unclean_shutdown,
        on_corrupt=on_corrupt,
        max_extra_space=max_extra_space,
        seen=facts.see,
        progress=progress,
    )
    made = Plan(run, spark, facts.first_request, facts, estimated=estimate)
    return made.what_if() if estimate else made


def clean(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    *,
    settings: Settings | None = None,
    server_properties: str | Sequence[str] | None = None,
    topic_configs: str | None = None,
    sets: Values | None = None,
    topic_sets: Mapping[str, Values] | None = None,
    now: int | None = None,
    topics: str | Sequence[str] = (),
    only: Only | None = None,
    unclean_shutdown: UncleanShutdown = "refuse",
    keep_replaced: bool = False,
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    free_at_least: int | None = None,
    ledger: str | None = None,
    output: str | Sequence[str] = (),
    begin_again: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Applies each topic's cleanup policy, as Kafka would: a plan and its execution in one.

    Arguments as for `plan` and for `winnow.api.clean`.
    """
    sources = Sources(
        settings=settings,
        server_properties=server_properties,
        topic_configs=topic_configs,
        sets=sets,
        topic_sets=topic_sets,
    )
    run = api.clean(
        spark,
        listed(log_dirs),
        settings=sources.parsed(),
        now=now_ms() if now is None else now,
        topics=listed(topics),
        only=only,
        unclean_shutdown=unclean_shutdown,
        keep_replaced=keep_replaced,
        on_corrupt=on_corrupt,
        max_extra_space=max_extra_space,
        free_at_least=free_at_least,
        ledger=ledger,
        output=listed(output),
        begin_again=begin_again,
        progress=progress,
    )
    return Result(run, spark)


def explain(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    partition: str,
    *,
    offset: int | None = None,
    key: str | bytes | None = None,
    settings: Settings | None = None,
    server_properties: str | Sequence[str] | None = None,
    topic_configs: str | None = None,
    sets: Values | None = None,
    topic_sets: Mapping[str, Values] | None = None,
    now: int | None = None,
    only: Only | None = None,
    unclean_shutdown: UncleanShutdown = "refuse",
) -> Explanation:
    """Why a partition would be cleaned or not, and what would become of a record, or of all with a
    key.

    A `key` that is text is taken as UTF-8. Settings and `now` as for `plan`, the rest as for
    `winnow.api.explain`.
    """
    sources = Sources(
        settings=settings,
        server_properties=server_properties,
        topic_configs=topic_configs,
        sets=sets,
        topic_sets=topic_sets,
    )
    return api.explain(
        spark,
        listed(log_dirs),
        partition=partition,
        offset=offset,
        key=key.encode() if isinstance(key, str) else key,
        settings=sources.parsed(),
        now=now_ms() if now is None else now,
        only=only,
        unclean_shutdown=unclean_shutdown,
    )


def verify(
    spark: SparkSession, log_dirs: str | Sequence[str], *, topics: str | Sequence[str] = ()
) -> SweepResult:
    """Reads everything in log directories and tells all that is wrong. Changes nothing."""
    return api.verify(spark, listed(log_dirs), topics=listed(topics))


def ledger_table(spark: SparkSession, ledger: str | None = None) -> DataFrame:
    """All of a ledger, one row for each partition of each run; the ledger of the command line if
    none is named.
    """
    return api.ledger_table(spark, default_ledger(os.environ) if ledger is None else ledger)
