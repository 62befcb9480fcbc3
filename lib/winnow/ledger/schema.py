"""The ledger's tables. That of cleanings has a row for each partition of each run; columns of the
whole run are repeated. That of erasures has a row for each of them.

One table for a run means one commit: a run is in the ledger completely or not at all. Bytes and
records are counts, offsets are Kafka's, times are UTC. No table has a key or a value of a record. A
null means that something is unknown, or that the reason says there is none. All columns may be
null: an older or newer version may not know some of them.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DoubleType, StructType

from winnow.kafka_log.schema import BOOLEAN, INT, LONG, TEXT, TIME, columns
from winnow.ledger.place import ERASURES, TABLE

_CHECKSUM = "CRC-32 over base offset (8 bytes), size (4) and CRC (4) of each batch, big-endian"
_REMOVED = columns(
    ("superseded", LONG, "a later record has the key, or there is no key"),
    ("tombstones", LONG, "the last of their keys, and their delete horizon has come"),
    ("aborted", LONG, "data of aborted transactions"),
    ("markers", LONG, "of transactions of which nothing is left"),
    ("retention", LONG, "in segments that were deleted whole"),
)
_SEGMENT = columns(
    ("base_offset", LONG, ""),
    ("bytes", LONG, "of its .log"),
    ("largest_timestamp", TIME, "as a broker takes it (S3.2)"),
    ("fate", TEXT, "kept, compacted or deleted"),
    ("checksum", LONG, f"of one that was compacted: {_CHECKSUM}"),
)
_OUTPUT = columns(
    ("base_offset", LONG, ""),
    ("bytes", LONG, "of its .log"),
    ("checksum", LONG, _CHECKSUM),
    ("sources", ArrayType(LONG), "base offsets of the segments that it replaces"),
)

RUN_COLUMNS = columns(
    ("run_id", TEXT, "begins with the time at which the run began"),
    ("winnow_version", TEXT, "which Winnow it was"),
    ("user", TEXT, "who ran it"),
    ("host", TEXT, "on which machine"),
    ("started_at", TIME, "of the machine's clock"),
    ("ended_at", TIME, "of the machine's clock, when all commits were done"),
    ("clock", TIME, "--now: the clock of every decision"),
    ("log_dirs", ArrayType(TEXT), "as they were given"),
    ("status", TEXT, "done, or partial: some partitions were left alone or failed"),
    ("exit_code", INT, "as in the README"),
)

PARTITION_COLUMNS = columns(
    ("topic", TEXT, "null in the one row of a run that found no partition"),
    ("partition", INT, ""),
    ("log_dir", TEXT, "where it lies"),
    ("policy", TEXT, "cleanup.policy, as it was applied"),
    ("actions", ArrayType(TEXT), "compacted, retained, or none"),
    ("rule", TEXT, "number of the rule that decided, as in docs/semantics.md"),
    ("reason", TEXT, "the same in words"),
    ("dirty_ratio", DoubleType(), "before the run"),
    ("dirty_ratio_after", DoubleType(), "as a run at the same clock would find it"),
    ("first_dirty_offset_before", LONG, ""),
    ("first_dirty_offset_after", LONG, ""),
    ("log_start_offset_before", LONG, ""),
    ("log_start_offset_after", LONG, ""),
    ("segments_before", INT, "how many"),
    ("segments_after", INT, "how many"),
    ("bytes_before", LONG, "of all .log files"),
    ("bytes_after", LONG, "of all .log files"),
    ("records_before", LONG, "control records included"),
    ("records_after", LONG, "control records included"),
    ("records_removed", _REMOVED, "null where not every batch header was read"),
    ("kept_bytes", LONG, "replaced or deleted, and kept for an undo"),
    ("quarantined_bytes", LONG, "damaged, and moved out of the log"),
    ("segments", ArrayType(_SEGMENT), "each that was there before"),
    ("outputs", ArrayType(_OUTPUT), "each that compaction wrote"),
    ("duration_ms", LONG, "of the tasks that rewrote it, one after the other, and of its commit"),
    ("max_compaction_lag_ms", LONG, "null if there is no limit"),
    (
        "oldest_dirty_at",
        TIME,
        "when the oldest dirty segment that is left begins, the active one included (S3.4)",
    ),
    ("error", TEXT, "why it was left as it was, if something was wrong with it or went wrong"),
    ("left_alone", BOOLEAN, "Kafka would have acted, or might have"),
)

LEDGER = StructType([*RUN_COLUMNS, *PARTITION_COLUMNS])

ERASED = columns(
    ("topic", TEXT, ""),
    ("partition", INT, ""),
    ("log_dir", TEXT, "where it lies"),
    ("records_erased", LONG, ""),
    ("segments_rewritten", INT, "null where nothing was tried"),
    ("bytes_before", LONG, "of all .log files"),
    ("bytes_after", LONG, "of all .log files"),
    ("left_active", LONG, "records with one of the keys in the active segment"),
    (
        "left_above_high_watermark",
        LONG,
        "and in others that are not entirely below the high watermark",
    ),
    ("copies", ArrayType(TEXT), "directories with older copies of records, not looked into"),
    ("proof_reached", LONG, "records that the second reading found where an erasure reaches: 0"),
    ("proof_problems", LONG, "places that it could not read: 0"),
    ("error", TEXT, "what went wrong, or why it was left alone"),
)

_ERASURE_COLUMNS = columns(
    ("ended_at", TIME, "of the machine's clock"),
    ("log_dirs", ArrayType(TEXT), "as they were given"),
    ("status", TEXT, "done, partial or failed"),
    ("exit_code", INT, "as in docs/erase.md"),
    (
        "proven",
        BOOLEAN,
        "a second reading found none of the keys in what an erasure reaches",
    ),
    ("keys", LONG, "different ones that were given"),
    ("keys_found", LONG, "that some record had"),
    (
        "key_hashes",
        ArrayType(TEXT),
        "BLAKE2b-128 of each key under the hash key, ascending; null if many",
    ),
    (
        "keys_hash",
        TEXT,
        "BLAKE2b-128 under the hash key of all of these hashes, one after the other",
    ),
    ("partitions", ArrayType(ERASED), ""),
)
LEDGER_OF_ERASURES = StructType([*RUN_COLUMNS.fields[:5], *_ERASURE_COLUMNS])

SCHEMAS = {TABLE: LEDGER, ERASURES: LEDGER_OF_ERASURES}
"""By table."""
