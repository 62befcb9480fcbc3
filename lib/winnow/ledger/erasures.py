"""An erasure in the ledger: one row, which contains what was done to each partition.

Keys are stored as hashes that nobody can compute or guess without the hash key. Only the result of
the run contains the hash key. With both, one can show that a given key was among those erased.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, BooleanType, StructType

from winnow.ledger.append import Addition
from winnow.ledger.place import ERASURES
from winnow.ledger.rows import instant, who
from winnow.ledger.schema import INT, LONG, TEXT, TIME, columns
from winnow.verbs.erase.values import EraseResult, Matches, PartitionErasure
from winnow.version import VERSION

MOST_LISTED = 100_000
"""For more keys than this, the ledger has one hash over all of them."""

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
    columns(
        ("run_id", TEXT, "begins with the time at which the run began"),
        ("winnow_version", TEXT, "which Winnow it was"),
        ("user", TEXT, "who ran it"),
        ("host", TEXT, "on which machine"),
        ("started_at", TIME, "of the machine's clock"),
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


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """Hexadecimal, as in the ledger."""

    hash_key: str
    """Only in the result, never in the ledger."""
    each: Sequence[str] | None
    together: str


def hash_keys(keys: Iterable[bytes], hash_key: bytes | None = None) -> KeyHashes:
    """Hash the keys under `hash_key`, or under a new one."""
    secret = hash_key or secrets.token_bytes(32)
    hashes = sorted(hashlib.blake2b(key, digest_size=16, key=secret).digest() for key in keys)
    together = hashlib.blake2b(b"".join(hashes), digest_size=16, key=secret).hexdigest()
    each = [one.hex() for one in hashes] if len(hashes) <= MOST_LISTED else None
    return KeyHashes(secret.hex(), each, together)


def erasure(
    result: EraseResult, hashes: KeyHashes, *, log_dirs: Sequence[str], started: int, ended: int
) -> Addition:
    """Return the row of a finished erasure, by this process's user on this machine. Times are in ms
    since the epoch.
    """
    user, host = who()
    row = {
        "run_id": result.run_id,
        "winnow_version": VERSION,
        "user": user,
        "host": host,
        "started_at": instant(started),
        "ended_at": instant(ended),
        "log_dirs": list(log_dirs),
        "status": result.status,
        "exit_code": result.exit_code,
        "proven": result.proven,
        "keys": result.keys,
        "keys_found": result.keys_found,
        "key_hashes": hashes.each,
        "keys_hash": hashes.together,
        "partitions": [_of_partition(partition) for partition in result.partitions],
    }
    return Addition(
        table=ERASURES, schema=LEDGER_OF_ERASURES, rows=[json.dumps(row)], run_id=result.run_id
    )


def _of_partition(p: PartitionErasure) -> dict[str, Any]:
    return {
        "topic": p.topic,
        "partition": p.partition,
        "log_dir": p.log_dir,
        "records_erased": (p.erased or Matches()).records,
        "segments_rewritten": p.segments_with_matches,
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
