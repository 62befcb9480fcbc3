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

_CHECKSUM = "CRC-32 over base offset (8 bytes), size (4) and CRC (4) of each batch, big-endian"
_REMOVED = _columns(
    ("superseded", _LONG, "a later record has the key, or there is no key"),
    ("tombstones", _LONG, "the last of their keys, and their delete horizon has come"),
    ("aborted", _LONG, "data of aborted transactions"),
    ("markers", _LONG, "of transactions of which nothing is left"),
    ("retention", _LONG, "in segments that were deleted whole"),
)
_SEGMENT = _columns(
    ("base_offset", _LONG, ""),
    ("bytes", _LONG, "of its .log"),
    ("largest_timestamp", _TIME, "as a broker takes it (S3.2)"),
    ("fate", _TEXT, "kept, compacted or deleted"),
    ("checksum", _LONG, f"of one that was compacted: {_CHECKSUM}"),
)
_OUTPUT = _columns(
    ("base_offset", _LONG, ""),
    ("bytes", _LONG, "of its .log"),
    ("checksum", _LONG, _CHECKSUM),
    ("sources", ArrayType(_LONG), "base offsets of the segments that it replaces"),
)

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
    ("dirty_ratio_after", DoubleType(), "as a run at the same clock would find it"),
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
    ("records_removed", StructType(_REMOVED), "null where not every batch header was read"),
    ("kept_bytes", _LONG, "replaced or deleted, and kept for an undo"),
    ("quarantined_bytes", _LONG, "damaged, and moved out of the log"),
    ("segments", ArrayType(StructType(_SEGMENT)), "each that was there before"),
    ("outputs", ArrayType(StructType(_OUTPUT)), "each that compaction wrote"),
    ("duration_ms", _LONG, "of the tasks that rewrote it, one after the other, and of its commit"),
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
