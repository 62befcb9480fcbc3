"""The verbs for notebooks. Settings are file names or mappings, and the clock defaults to now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from winnow import api
from winnow.arguments import checked, names
from winnow.cleaning.request import Scope, Trust
from winnow.clock import now_ms
from winnow.ledger.place import default_ledger
from winnow.runtime.progress import Progress
from winnow.runtime.session import use_this_python
from winnow.values.facts import Facts
from winnow.values.plans import Plan
from winnow.values.result import Result
from winnow.values.settings import SourceOptions, chosen, parse_sources
from winnow.verbs.explain.values import Explanation
from winnow.verbs.verify.verify import SweepResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LookOptions(SourceOptions, Trust, total=False):
    """What every verb decides by."""

    now: int | None
    """In ms since the epoch. None: the current time."""


class RunOptions(LookOptions, Scope, total=False):
    """Options of `plan` and `clean`, with the meaning that they have in `winnow.api`."""

    progress: Progress | None


class PlanOptions(RunOptions, total=False):
    estimate: bool


class CleanOptions(RunOptions, total=False):
    keep_replaced: bool
    free_at_least: int | None
    ledger: str | None
    output: str | Sequence[str]
    begin_again: bool


class ExplainOptions(LookOptions, total=False):
    offset: int | None
    key: str | bytes | None
    """Text is encoded as UTF-8."""


@checked
def plan(
    spark: SparkSession, log_dirs: str | Sequence[str], **options: Unpack[PlanOptions]
) -> Plan:
    """Return what a cleaning would do and why. Changes nothing. Raises as `winnow.api.plan`."""
    use_this_python(spark.sparkContext)
    asked = _with_settings(options)
    estimate = bool(asked.pop("estimate", False))
    dirs = names(log_dirs, "log_dirs")
    facts: list[Facts] = []
    asked["seen"] = lambda found, request: facts.append(Facts(spark, dirs, (*found,), request))
    run = api.plan(spark, dirs, **asked)
    made = Plan(run, spark, facts[0].request, facts[0], estimated=estimate)
    return made.what_if() if estimate else made


@checked
def clean(
    spark: SparkSession, log_dirs: str | Sequence[str], **options: Unpack[CleanOptions]
) -> Result:
    """Apply each topic's cleanup policy, as Kafka would: a plan and its execution in one. Raises as
    `winnow.api.clean`.
    """
    use_this_python(spark.sparkContext)
    run = api.clean(spark, names(log_dirs, "log_dirs"), **_with_settings(options))
    return Result(run, spark)


@checked
def explain(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    partition: str,
    **options: Unpack[ExplainOptions],
) -> Explanation:
    """Explain why a partition would or would not be cleaned, and what would happen to one record,
    or to all records with a key. Raises as `winnow.api.explain`.
    """
    use_this_python(spark.sparkContext)
    asked = _with_settings(options)
    key = asked.get("key")
    if isinstance(key, str):
        asked["key"] = key.encode()
    return api.explain(spark, names(log_dirs, "log_dirs"), partition, **asked)


def _with_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for `winnow.api`: settings are parsed, and single names become tuples."""
    given = dict(options)
    sources = {name: given.pop(name) for name in SourceOptions.__annotations__ if name in given}
    now = given.pop("now", None)
    if "topics" in given:
        given["topics"] = chosen(given["topics"])
    for name in given.keys() & {"exclude", "output"}:
        given[name] = names(given[name], name)
    settings = parse_sources(**sources)
    return given | {"settings": settings, "now": now_ms() if now is None else now}


@checked
def verify(
    spark: SparkSession, log_dirs: str | Sequence[str], *, topics: str | Sequence[str] = ()
) -> SweepResult:
    """Read everything in log directories and report all that is wrong. Changes nothing."""
    use_this_python(spark.sparkContext)
    globs = names(topics, "topics")
    return api.verify(spark, names(log_dirs, "log_dirs"), topics=globs)


@checked
def ledger_table(spark: SparkSession, ledger: str | None = None) -> DataFrame:
    """Return the whole ledger, one row for each partition of each run. Without `ledger`, it reads
    the command line's default ledger.
    """
    return api.ledger_table(spark, default_ledger() if ledger is None else ledger)
