"""A plan as a value: display it, try other settings, execute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from winnow import api
from winnow.clean.carry_out import CarriedOut
from winnow.clean.on_corrupt import damaged_first
from winnow.clean.plan.prepared import Prepared
from winnow.clean.plan.replan import check_same, rethink
from winnow.clean.preview import preview
from winnow.clean.request import Request
from winnow.policy.sources import TopicSet
from winnow.runtime.progress import Progress
from winnow.values.facts import Facts
from winnow.values.result import Result
from winnow.values.settings import Value, listed, parse_topic_values


@dataclass(frozen=True, slots=True)
class Plan(Result):
    """What `execute` would do. A plan changes nothing, and holds no lock once it is made."""

    request: Request = field(repr=False, compare=False)
    facts: Facts = field(repr=False, compare=False)
    estimated: bool = False
    """True if the records were read: then it is known what compaction keeps."""
    assumed: tuple[TopicSet, ...] = ()
    """The settings that `what_if` added."""

    def what_if(self, *, topics: str | Sequence[str] = "*", **values: Value) -> Plan:
        """Return the plan with other topic configs, such as `retention_ms=3_600_000`, for topics
        that match one of the globs.

        These values override all other sources. Partitions that this plan leaves alone are still
        left alone. Files are read again only for facts that are not known yet: batch headers of
        partitions that were not due for compaction before and, with an estimate, records of
        partitions that are now compacted differently. Raises UsageError for an unknown config or an
        invalid value, and WinnowError if a log directory has changed since.
        """
        configs = {name.replace("_", "."): value for name, value in values.items()}
        sets = tuple(one for glob in listed(topics) for one in parse_topic_values(glob, configs))
        settings = replace(
            self.request.settings, topic_sets=(*self.request.settings.topic_sets, *sets)
        )
        request = replace(self.request, settings=settings)
        prepared = rethink(self.facts.prepared, request, self.facts.walk)
        refusal = damaged_first(prepared, request)
        request = replace(request, estimate=self.estimated)
        weigh = self.facts.weigher(request.now)
        done = (
            preview(prepared, request, weigh=weigh) if refusal is None else CarriedOut(refusal, 0)
        )
        run = replace(
            self.run,
            partitions=tuple(done.partitions),
            refused=refusal is not None,
            peak_extra_bytes=done.peak_extra_bytes,
        )
        return replace(self, run=run, request=request, assumed=(*self.assumed, *sets))

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
        request = self.request
        run = api.clean(
            self.spark,
            self.facts.log_dirs,
            settings=request.settings,
            now=request.now,
            topics=request.topics,
            only=request.only,
            unclean_shutdown=request.unclean_shutdown,
            keep_replaced=keep_replaced,
            on_corrupt=request.on_corrupt,
            max_extra_space=request.max_extra_space,
            keep_free=request.keep_free,
            ledger=ledger,
            seen=None if refresh else self._check,
            progress=progress,
        )
        return Result(run, self.spark)

    def _check(self, prepared: Sequence[Prepared], _request: Request) -> None:
        check_same(self.facts.prepared, prepared)
