"""The result of a run as a value that displays itself."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winnow.clean.result import PartitionResult, RunResult
from winnow.values.frame import partitions_frame
from winnow.values.html import freed_bytes, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Result:
    """What a run did or, in a `Plan`, would do. `run` has all details."""

    run: RunResult
    spark: SparkSession = field(repr=False, compare=False)

    @property
    def partitions(self) -> tuple[PartitionResult, ...]:
        return self.run.partitions

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on the whole run: ignored settings, skipped directories."""
        return self.run.notes

    @property
    def bytes_before(self) -> int:
        """Return the log bytes of all partitions that were read."""
        return sum(p.bytes_before or 0 for p in self.partitions)

    @property
    def freed_bytes(self) -> int | None:
        """Return the freed bytes; None in a plan that compacts and has no estimate."""
        return freed_bytes(self.partitions)

    def to_df(self) -> DataFrame:
        """Return one row for each partition, with the columns `winnow.values.frame.PARTITIONS`."""
        return partitions_frame(self.spark, self.partitions)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page."""
        from winnow.report import write_report  # noqa: PLC0415 - it loads Jinja

        write_report(self.run, path)

    def _repr_html_(self) -> str:
        return table(self.run)
