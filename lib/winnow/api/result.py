"""The result of a run as a value that displays itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from winnow.arguments import checked
from winnow.cleaning.result import PartitionResult, RunResult
from winnow.words import counted, moment, printable, redacted, size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_ROWS = 50
_HEAD = ("partition", "action", "before", "after", "freed", "segments", "dirty", "why")
PARTITIONS = """
    topic string not null, partition int not null, log_dir string not null, policy string,
    actions array<string> not null, rule string not null, reason string not null,
    bytes_before bigint, bytes_after bigint, records_before bigint, records_after bigint,
    segments_before int, segments_after int, segments_unchanged int, segments_unread int,
    dirty_ratio double, dirty_ratio_after double,
    first_dirty_offset_before bigint, first_dirty_offset_after bigint,
    log_start_offset_before bigint, log_start_offset_after bigint,
    error string, left_alone boolean not null
"""
"""docs/python.md describes the columns. A null means that a value is unknown, or that `reason` says
there is none.
"""


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """What a run did or, in a `Plan`, would do. In a notebook it shows itself as a table.

    Attributes:
        run: All details, with those of the JSON object that `--json` prints.
        spark: The session of the run.

    Example:
        >>> result = winnow.clean(spark, "/var/lib/kafka", topic_configs="topic-configs.txt")
        >>> result.to_df().where("topic = 'd-time'").select("actions").head()
        Row(actions=['retained'])
        >>> result.run.status
        'done'
    """

    run: RunResult
    spark: SparkSession = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return repr(self.run)

    @property
    def partitions(self) -> tuple[PartitionResult, ...]:
        """Return one value for each partition. Its attributes are the columns of `to_df`, and
        `name`, `acts` (it was or would be changed), `failed` and `freed_bytes`.
        """
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
        """Return the freed bytes; None in a plan that compacts and has no estimate. What is kept
        for an undo is not freed.
        """
        return freed_bytes(self.partitions)

    def to_df(self) -> DataFrame:
        """Return a DataFrame with one row for each partition. docs/python.md describes its
        columns.
        """
        names = [column.split()[0] for column in PARTITIONS.split(",")]
        rows = [[getattr(p, name) for name in names] for p in self.partitions]
        return self.spark.createDataFrame(rows, PARTITIONS)

    @checked
    def report(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page.

        Args:
            path: Name of the file. A file with this name is replaced.

        Raises:
            UsageError: The file can't be written.

        Example:
            >>> plan = winnow.plan(spark, "/var/lib/kafka", topic_configs="topic-configs.txt")
            >>> plan.report("plan.html")
        """
        from winnow.report.write import write_report  # noqa: PLC0415 - it loads Jinja

        write_report(self.run, path)

    def _repr_html_(self) -> str:
        """Return the table: changed partitions first, then most bytes first, at most MOST_ROWS."""
        ordered = sorted(
            self.partitions, key=lambda p: (not p.acts, -(p.bytes_before or 0), p.topic)
        )
        left = len(ordered) - MOST_ROWS
        more = f"<p>and {counted(left, 'partition')} more: see .to_df()</p>" if left > 0 else ""
        head = "".join(f"<th>{name}</th>" for name in _HEAD)
        body = "".join(_row(p) for p in ordered[:MOST_ROWS])
        rows = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f"<p>{escape(_title(self.run))}</p><table>{rows}</table>{more}"


def freed_bytes(partitions: Sequence[PartitionResult]) -> int | None:
    """Return the bytes that all of them free together; None if any size afterwards is unknown.
    Negative if what is kept for an undo takes more.
    """
    freed = 0
    for p in partitions:
        if p.bytes_before is None and p.bytes_after is None:
            continue  # left alone and not read: it frees nothing
        if p.freed_bytes is None:
            return None
        freed += p.freed_bytes
    return freed


def _title(result: RunResult) -> str:
    acting = sum(p.acts for p in result.partitions)
    done = "to be cleaned" if result.verb == "plan" else "cleaned"
    freed = freed_bytes(result.partitions)
    amount = (
        "how much this frees is unknown without an estimate"
        if freed is None
        else f"{size(freed)} freed"
    )
    return (
        f"{acting} of {counted(len(result.partitions), 'partition')} {done}, {amount}, at "
        f"{moment(result.now)}"
    )


def _row(p: PartitionResult) -> str:
    after = "?" if p.segments_after is None else p.segments_after
    cells = (
        p.name,
        "+".join(p.actions) if p.acts else "-",
        size(p.bytes_before),
        size(p.bytes_after),
        size(freed_bytes([p]) if p.bytes_before is not None else None),
        "" if p.segments_before is None else f"{p.segments_before} → {after}",
        "" if p.dirty_ratio is None else f"{p.dirty_ratio:.2f}",
        p.reason if p.error is None else f"{p.reason}: {p.error}",
    )
    return f"<tr>{''.join(f'<td>{escape(printable(redacted(cell)))}</td>' for cell in cells)}</tr>"
