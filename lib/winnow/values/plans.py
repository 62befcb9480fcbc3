"""A plan as a value: display it, try other settings, compare it with others, execute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from winnow import api
from winnow.arguments import checked
from winnow.cleaning.carry_out import CarriedOut, damaged_first
from winnow.cleaning.plan.decide_listed import rethink
from winnow.cleaning.plan.saved import check_same
from winnow.cleaning.preview import preview
from winnow.cleaning.request import Request, RunOptions
from winnow.errors import UsageError
from winnow.logdir.topic_globs import check_globs
from winnow.policy.sources import TopicSet
from winnow.runtime.progress import Progress
from winnow.values.facts import Facts
from winnow.values.result import Result, freed_bytes
from winnow.values.settings import Value, chosen, parse_topic_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


COMPARED = """
    plan string not null, topic string not null, partitions int not null, cleaned int not null,
    bytes_before bigint not null, freed_bytes bigint
"""
"""One row for each topic of each plan. `cleaned`: number of partitions that would change.
`freed_bytes` is null if only a run or an estimate can find it.
"""


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Result):
    """What `execute` would do. A plan changes nothing, and holds no lock once it is made."""

    request: Request = field(repr=False, compare=False)
    facts: Facts = field(repr=False, compare=False)
    estimated: bool = False
    """True if the records were read: then it is known what compaction keeps."""
    assumed: tuple[TopicSet, ...] = ()
    """The settings that `what_if` added."""

    @checked
    def what_if(self, *, topics: str | Sequence[str] = "*", **values: Value) -> Plan:
        """Return the plan with other topic configs, such as `retention_ms=3_600_000`, for topics
        that match one of the globs.

        These values override all other sources. Partitions that this plan leaves alone are still
        left alone. Files are read again only for facts that are not known yet: batch headers of
        partitions that were not due for compaction before and, with an estimate, records of
        partitions that are now compacted differently. Raises UsageError for an unknown config, an
        invalid value, or a glob that matches no topic of this plan, and WinnowError if a log
        directory has changed since.
        """
        configs = {name.replace("_", "."): value for name, value in values.items()}
        globs = chosen(topics)
        planned = {p.topic for p in self.run.partitions}
        check_globs(globs, planned, option="topics", of="the plan")
        sets = tuple(one for glob in globs for one in parse_topic_values(glob, configs))
        settings = replace(
            self.request.settings, topic_sets=(*self.request.settings.topic_sets, *sets)
        )
        request = replace(self.request, settings=settings)
        prepared = rethink(self.facts.prepared, request, self.facts.walk)
        refusal = damaged_first(prepared, request)
        request = replace(request, estimate=self.estimated)
        weigh = partial(self.facts.weigh, request.now)
        done = preview(prepared, request, weigh) if refusal is None else CarriedOut(refusal, 0)
        run = replace(
            self.run,
            partitions=tuple(done.partitions),
            refused=refusal is not None,
            peak_extra_bytes=done.peak_extra_bytes,
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

        Raises WinnowError, and changes nothing, if a partition has changed since the plan was made.
        With `refresh`, it decides again from the current files instead. `keep_replaced` and
        `ledger`: see `winnow.api.clean`.
        """
        planned: Any = {name: getattr(self.request, name) for name in RunOptions.__annotations__}
        planned |= {
            "estimate": False,
            "keep_replaced": keep_replaced,
            "progress": progress,
            "seen": None if refresh else lambda now, _: check_same(self.facts.prepared, now),
        }
        run = api.clean(self.spark, self.facts.log_dirs, ledger=ledger, **planned)
        return Result(run, self.spark)


@checked
def compare(plans: Mapping[str, Plan]) -> DataFrame:
    """Return what each plan would do, by topic, with the columns COMPARED. Raises UsageError if
    there is no plan.
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
