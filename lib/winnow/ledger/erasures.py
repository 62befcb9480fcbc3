"""An erasure in the ledger: one row, which contains what was done to each partition.

Keys are stored as hashes (`winnow.verbs.erase.key_hashes`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, BooleanType, StructType

from winnow.errors import UsageError
from winnow.ledger.append import Addition
from winnow.ledger.history import read_ledger
from winnow.ledger.place import ERASURES
from winnow.ledger.rows import of_run, who
from winnow.ledger.schema import INT, LONG, RUN_COLUMNS, TEXT, TIME, columns
from winnow.verbs.erase.key_hashes import ErasedKeys, KeyHashes, erased_keys, read_hash_key
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITION = columns(
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

LEDGER_OF_ERASURES = StructType(
    RUN_COLUMNS[:5]
    + columns(
        ("ended_at", TIME, "of the machine's clock"),
        ("log_dirs", ArrayType(TEXT), "as they were given"),
        ("status", TEXT, "done, partial or failed"),
        ("exit_code", INT, "as in docs/erase.md"),
        (
            "proven",
            BooleanType(),
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
        ("partitions", ArrayType(StructType(_PARTITION)), ""),
    )
)


def erasure(
    result: EraseResult, hashes: KeyHashes, *, log_dirs: Sequence[str], started: int, ended: int
) -> Addition:
    """Return the row of a finished erasure, by this process's user on this machine. Times are in ms
    since the epoch. Of each directory that was not searched it has an entry that is no partition.
    """
    row = of_run(result, log_dirs=log_dirs, started=started, ended=ended, by=who()) | {
        "proven": result.proven,
        "keys": result.keys,
        "keys_found": result.keys_found,
        "key_hashes": hashes.each,
        "keys_hash": hashes.together,
        "partitions": [
            *(_of_partition(partition) for partition in result.partitions),
            # As an error, not in a new column: Delta would refuse it in older tables.
            *({"error": f"not searched: {directory}"} for directory in result.not_searched),
        ],
    }
    return Addition(
        table=ERASURES, schema=LEDGER_OF_ERASURES, rows=[json.dumps(row)], run_id=result.run_id
    )


def _of_partition(p: PartitionErasure) -> dict[str, Any]:
    return {
        "topic": p.topic,
        "partition": p.partition,
        "log_dir": p.log_dir,
        "records_erased": (p.erased or Amount()).records,
        "segments_rewritten": p.segments_rewritten,
        "bytes_before": p.bytes_before,
        "bytes_after": p.bytes_after,
        "left_active": None if p.active is None else p.active.records,
        "left_above_high_watermark": None
        if p.above_high_watermark is None
        else p.above_high_watermark.records,
        "copies": list(p.copies),
        "proof_reached": None if p.proof is None else p.proof.reached,
        "proof_problems": None if p.proof is None else p.proof.problems,
        "error": p.error or p.why_left_alone,
    }


def erased_in_ledger(
    spark: SparkSession, ledger: str | None, run_id: str, hash_key: str | None
) -> ErasedKeys:
    """Return the keys of an erasure as hashes. `hash_key`: the file with its hash key.

    Raises UsageError for a run that is not in the ledger, and for another hash key.
    """
    if ledger is None or hash_key is None:
        raise UsageError(
            "a run needs a ledger and its hash key",
            expected="a certificate, or --hash-key FILE and a ledger",
            found=run_id,
        )
    rows = [row for row in read_ledger(spark, ledger, ERASURES).collect() if row.run_id == run_id]
    if not rows:
        raise UsageError(
            "there is no such erasure", expected="its run id", found=run_id, where=ledger
        )
    return erased_keys(
        rows[0].key_hashes,
        rows[0].keys_hash,
        read_hash_key(hash_key),
        topics={one.topic for one in rows[0].partitions if one.topic is not None},
        run_id=run_id,
    )
