"""A plan as a value: display it, try other settings, compare it with others, execute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from winnow.api.facts import Facts
from winnow.api.result import Result, freed_bytes
from winnow.api.run import run_and_record
from winnow.api.sources import Value, chosen, topic_sets_of
from winnow.arguments import checked
from winnow.cleaning.clean import Cleaned
from winnow.cleaning.plan.decide_listed import rethink
from winnow.cleaning.plan.saved import check_same
from winnow.cleaning.predict import damaged_first, predict
from winnow.cleaning.request import Request
from winnow.clock import new_run_id
from winnow.errors import UsageError
from winnow.logdir.topic_globs import check_globs
from winnow.policy.sources import TopicSet, parse_topic_set
from winnow.runtime.progress import Progress, Silence
from winnow.storage.live.read_view import reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


COMPARED = """
    plan string not null, topic string not null, partitions int not null, cleaned int not null,
    bytes_before bigint not null, freed_bytes bigint
"""
"""The columns of `compare`."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Result):
    """What `execute` would do. A plan changes nothing, and holds no lock once it is made.

    It has the attributes and methods of `Result`, too.

    Attributes:
        request: What was asked of `plan`.
        facts: What was read from the files.
        estimated: True if the records were read: then it is known what compaction keeps.
        assumed: The topic configs that `what_if` added.

    Example:
        >>> plan = winnow.plan(spark, "/var/lib/kafka", topic_configs="topic-configs.txt")
        >>> plan.estimated, plan.freed_bytes
        (False, None)
    """

    request: Request = field(repr=False, compare=False)
    facts: Facts = field(repr=False, compare=False)
    estimated: bool = False
    assumed: tuple[TopicSet, ...] = ()

    @checked
    def what_if(self, *, topics: str | Sequence[str] = "*", **values: Value) -> Plan:
        """Return the plan with other topic configs. They override all other sources.

        Partitions that this plan leaves alone are still left alone. Files are read again only for
        facts that are not known yet: batch headers of partitions that were not due for compaction
        before and, with an estimate, records of partitions that are now compacted differently.

        Args:
            topics: Globs of the topics with these configs. By default all topics of the plan.
            values: Kafka's topic configs, with underscores for dots: `retention_ms=3_600_000`.

        Returns:
            Another plan. This plan stays as it is.

        Raises:
            UsageError: A config is unknown, its value is invalid, or a glob matches no topic of
                this plan.
            WinnowError: A log directory has changed since the plan was made.

        Example:
            >>> plan = winnow.plan(spark, "/var/lib/kafka", topic_configs="topic-configs.txt")
            >>> plan.what_if(topics="d-*", retention_ms=1).bytes_before == plan.bytes_before
            True
        """
        configs = {name.replace("_", "."): value for name, value in values.items()}
        globs = chosen(topics)
        planned = {p.topic for p in self.run.partitions}
        check_globs(globs, planned, option="topics", of="the plan")
        texts = [text for glob in globs for text in topic_sets_of(glob, configs)]
        sets = tuple(map(parse_topic_set, texts))
        settings = self.request.settings
        settings = replace(settings, topic_sets=(*settings.topic_sets, *sets))
        request = replace(self.request, settings=settings)
        # While brokers run, the files are read as of the first plan.
        with reading(*self.facts.views):
            prepared = rethink(self.facts.planned, request, self.facts.walk)
            refusal = damaged_first(prepared, request)
            request = replace(request, estimate=self.estimated)
            estimate = partial(self.facts.estimate, request.now)
            done = predict(prepared, request, estimate) if refusal is None else Cleaned(refusal, 0)
        run = replace(
            self.run,
            partitions=tuple(done.partitions),
            refused=refusal is not None,
            peak_extra_bytes=done.peak_bytes,
        )
        return replace(self, run=run, request=request, assumed=(*self.assumed, *sets))

    @checked
    def execute(
        self,
        *,
        refresh: bool = False,
        keep_replaced: bool = False,
        ledger: str | None = None,
        progress: Progress | None = None,
    ) -> Result:
        """Clean with the clock and the settings of this plan.

        Args:
            refresh: Decide again from the current files. By default the run is refused, and nothing
                is changed, if a partition has changed since the plan was made.
            keep_replaced: Keep replaced and deleted files until `recover` undoes or purges the run.
                By default they are removed.
            ledger: Directory or URL of the ledger that records the run. By default none does.
            progress: Is called with the stages of the run. By default nothing is.

        Returns:
            What was done to each partition, and why.

        Raises:
            WinnowError: A partition has changed since the plan was made.
            UsageError: An argument can't be used.
            LogDirInUseError: A broker is running on a log directory.

        Example:
            >>> plan = winnow.plan(spark, "/var/lib/kafka", topic_configs="topic-configs.txt")
            >>> plan.execute().bytes_before == plan.bytes_before
            True
        """
        request = replace(
            self.request,
            touch=True,
            run_id=new_run_id(),
            estimate=False,
            keep_replaced=keep_replaced,
            progress=progress or Silence(),
            seen=None if refresh else lambda now, _: check_same(self.facts.planned, now),
        )
        return Result(
            run_and_record(self.spark, self.facts.log_dirs, request, ledger=ledger), self.spark
        )


@checked
def compare(plans: Mapping[str, Plan]) -> DataFrame:
    """Return what each plan would do, by topic.

    Args:
        plans: The plans, by the names that the result has for them.

    Returns:
        One row for each topic of each plan: `plan`, `topic`, `partitions`, `cleaned` (partitions
        that would change), `bytes_before` and `freed_bytes`. The last is null if only a run or an
        estimate can find it.

    Raises:
        UsageError: There is no plan.

    Example:
        >>> plan = winnow.plan(spark, "/var/lib/kafka", topic_configs="topic-configs.txt")
        >>> hour = plan.what_if(retention_ms=3_600_000)
        >>> winnow.compare({"as it is": plan, "1 h": hour}).count()
        6
    """
    if not plans:
        raise UsageError("no plan to compare", expected='{"a name": a plan, ...}')
    spark = next(iter(plans.values())).spark
    rows: list[tuple[str, str, int, int, int, int | None]] = []
    for name, plan in plans.items():
        for topic in sorted({p.topic for p in plan.partitions}):
            own = [p for p in plan.partitions if p.topic == topic]
            before, acting = sum(p.bytes_before or 0 for p in own), sum(p.acts for p in own)
            rows.append((name, topic, len(own), acting, before, freed_bytes(own)))
    return spark.createDataFrame(rows, COMPARED)
