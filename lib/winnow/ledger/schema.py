"""The ledger's one table: a row for each partition of each run, with what is the same for the whole run repeated.

One table means one commit: a run is in the ledger whole or not at all. Bytes and records are counts, offsets are
Kafka's, times are UTC. There is no key and no value of a record in it. A null is something that is not known, or that
the reason says there is none of.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def _columns(*columns: tuple[str, DataType, str]) -> list[StructField]:
    # All may be null: what one version does not know, an older one or a newer one may.
    return [StructField(name, of, nullable=True, metadata={"comment": comment}) for name, of, comment in columns]


_TEXT, _LONG, _TIME, _INT = StringType(), LongType(), TimestampType(), IntegerType()

RUN_COLUMNS = _columns(
    ("run_id", _TEXT, "begins with the time at which the run began"),
    ("winnow_version", _TEXT, "which Winnow it was"),
    ("user", _TEXT, "who ran it"),
    ("host", _TEXT, "on which machine"),
    ("started_at", _TIME, "of the machine's clock"),
    ("ended_at", _TIME, "of the machine's clock, when all commits were done"),
    ("clock", _TIME, "--now: the clock of every decision"),
    ("log_dirs", ArrayType(_TEXT), "as they were given"),
    ("status", _TEXT, "done, or partial: some partitions were left alone or failed"),
    ("exit_code", _INT, "as in the README"),
)

PARTITION_COLUMNS = _columns(
    ("topic", _TEXT, "null in the one row of a run that found no partition"),
    ("partition", _INT, ""),
    ("log_dir", _TEXT, "where it lies"),
    ("policy", _TEXT, "cleanup.policy, as it was applied"),
    ("actions", ArrayType(_TEXT), "compacted, retained, or none"),
    ("rule", _TEXT, "number of the rule that decided, as in docs/semantics.md"),
    ("reason", _TEXT, "the same in words"),
    ("dirty_ratio", DoubleType(), "before the run"),
    ("first_dirty_offset_before", _LONG, ""),
    ("first_dirty_offset_after", _LONG, ""),
    ("log_start_offset_before", _LONG, ""),
    ("log_start_offset_after", _LONG, ""),
    ("segments_before", _INT, "how many"),
    ("segments_after", _INT, "how many"),
    ("bytes_before", _LONG, "of all .log files"),
    ("bytes_after", _LONG, "of all .log files"),
    ("records_before", _LONG, "control records included"),
    ("records_after", _LONG, "control records included"),
    ("kept_bytes", _LONG, "replaced or deleted, and kept for an undo"),
    ("quarantined_bytes", _LONG, "damaged, and moved out of the log"),
    ("max_compaction_lag_ms", _LONG, "null if there is no limit"),
    (
        "oldest_dirty_at",
        _TIME,
        "when the oldest dirty segment that is left begins, the active one included (S3.4)",
    ),
    ("error", _TEXT, "why it was left as it was, if something was wrong with it or went wrong"),
    ("left_alone", BooleanType(), "Kafka would have acted, or might have"),
)

LEDGER = StructType([*RUN_COLUMNS, *PARTITION_COLUMNS])
