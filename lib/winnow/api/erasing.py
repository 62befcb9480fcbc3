"""`erase`, and `verify_key_hashes`: the search for erased keys by their hashes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from winnow.api.checking import found_to_read
from winnow.arguments import checked, names
from winnow.cleaning.in_place import check_in_place
from winnow.cleaning.request import Request
from winnow.cleaning.run import opened
from winnow.clock import new_run_id, now_ms
from winnow.kafka_log.source import check_paths
from winnow.ledger.append import append, recorded
from winnow.ledger.history import erased_in_ledger
from winnow.ledger.place import check_ledger
from winnow.ledger.rows import erasure, who
from winnow.logdir.live.read_view import view_notes
from winnow.policy.sources import Settings
from winnow.report.certificate import Circumstances, certified, check_place, read_certificate
from winnow.runtime.cancel import cancelling_jobs
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.session import use_this_python
from winnow.runtime.stop import Stop
from winnow.verbs.erase.erase import NO_CLOCK, erase_from
from winnow.verbs.erase.key_hashes import hash_keys
from winnow.verbs.erase.keys import different_keys
from winnow.verbs.erase.patterns import different_patterns
from winnow.verbs.erase.values import EraseResult
from winnow.verbs.starts import starts_of
from winnow.verbs.verify.key_hashes import KeyHashResult, check_key_hashes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@checked
def erase(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    *,
    keys: Sequence[bytes] | DataFrame | Any,  # noqa: ANN401 - Arrow has no types
    settings: Settings | None = None,
    topics: str | Sequence[str] = (),
    search_values: Sequence[bytes] = (),
    dry_run: bool = False,
    ledger: str | None = None,
    certificate: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> EraseResult:
    """Remove every record with one of the keys from all segments that can be rewritten, whatever
    the cleanup policy, and read everything again to prove it. Offsets, checkpoints and all other
    records are unchanged.

    The active segment, and segments that reach the high watermark, are searched but not changed.

    Args:
        spark: The session whose executors read and write the files.
        log_dirs: One path or URL, or all `log.dirs` of one stopped broker.
        keys: Bytes, an Arrow array of them, or a DataFrame with a column `key`, binary or string.
        settings: Index intervals, and which topics are tiered. By default Kafka's defaults.
        topics: Globs of topics. By default all topics. Kafka's own topics match only by their
            names.
        search_values: Byte strings, of at most 4096 bytes together. Records with other keys that
            hold one of them, in the key, the value or a header, are counted, also in Kafka's own
            topics. They are not erased. By default nothing is counted.
        dry_run: Only count the records. By default they are erased. A dry run changes nothing and
            is not recorded.
        ledger: Directory or URL of the ledger that records the erasure, with hashes of the keys
            under `EraseResult.hash_key`. By default none does.
        certificate: Directory for a certificate. By default none is written.
        progress: Is called with the stages of the work. By default nothing is.
        stop: Lets another thread stop the erasure. By default none can.

    Returns:
        What was erased, what could not be, and the proof. Only this value has the hash key.

    Raises:
        UsageError: An argument can't be used, there are no keys, or a directory is not a Kafka log
            directory.
        LogDirInUseError: A broker is running on a log directory.
        StoppedError: The erasure was stopped before it had a result.

    Example:
        >>> result = winnow.api.erase(
        ...     spark, "/var/lib/kafka", keys=[b"customer-4711"], ledger="winnow-ledger"
        ... )
        >>> result.keys_found
        0
    """
    use_this_python(spark.sparkContext)
    progress, paths = progress or Silence(), names(log_dirs, "log_dirs")
    different, started = different_keys(keys), now_ms()
    patterns = different_patterns(search_values)
    if not dry_run:
        check_in_place(paths)
    if ledger is not None:
        check_ledger(ledger, paths)
    certificate = None if dry_run else certificate
    if certificate is not None:
        check_place(certificate, paths)
    asked = {"settings": settings or Settings(), "topics": topics, "now": 0}
    asked |= {"progress": progress, "stop": stop}
    request = Request.of(asked, touch=not dry_run)
    with opened(spark, paths, request, one_node="erase") as (dirs, known, notes):
        if not dry_run:
            check_paths([d.path for d in dirs])
        with cancelling_jobs(spark.sparkContext, known.stop):
            without_clock = replace(known, now=NO_CLOCK)
            result = erase_from(
                spark, dirs, without_clock, different, patterns=patterns, run_id=new_run_id()
            )
        starts = starts_of(
            spark.sparkContext, dirs, known.settings, wanted=known.wants, progress=progress
        )
        result = replace(result, notes=(*notes, *result.notes), starts=starts)
    if dry_run or (ledger is None and certificate is None):
        return result
    hashes, ended = hash_keys(key.as_py() for key in different), now_ms()
    if ledger is not None:
        row = erasure(result, hashes, log_dirs=paths, started=started, ended=ended)
        sc = spark.sparkContext
        result = recorded(ledger, result, lambda: append(sc, ledger, row, progress))
    if certificate is not None:
        at = Circumstances(*who(), started, ended, dirs, patterns)
        result = certified(certificate, result, hashes, at)
    is_kept = result.ledger or result.certificate
    return replace(result, hash_key=hashes.hash_key if is_kept else None)


@checked
def verify_key_hashes(
    spark: SparkSession,
    log_dirs: str | Sequence[str],
    *,
    key_hash: str,
    hash_key: str | None = None,
    ledger: str | None = None,
    topics: str | Sequence[str] = (),
    progress: Progress | None = None,
) -> KeyHashResult:
    """Count the records that have a key which was erased, without knowing the keys. Changes
    nothing.

    Args:
        spark: The session whose executors read the files.
        log_dirs: One path or URL, or several.
        key_hash: The certificate of the erasure, or its run id in `ledger`.
        hash_key: The file with the hash key of the erasure. By default the file beside the
            certificate.
        ledger: Directory or URL of the ledger that records the erasure. By default none.
        topics: Names of topics. By default those of the erasure.
        progress: Is called with the stages of the work. By default nothing is.

    Returns:
        What was searched and what was found, by segment.

    Raises:
        UsageError: An argument or the erasure can't be used.
        LogDirInUseError: A log directory is locked by another run of Winnow.

    Example:
        >>> erased = winnow.api.erase(
        ...     spark, "/var/lib/kafka", keys=[b"customer-4711"], certificate="certificates"
        ... )
        >>> winnow.api.verify_key_hashes(spark, "/mnt/copy", key_hash=erased.certificate).found
        0
    """
    if os.path.exists(key_hash) or key_hash.endswith(".json"):
        erased = read_certificate(key_hash, hash_key)
    else:
        erased = erased_in_ledger(spark, ledger, key_hash, hash_key)
    erased = replace(erased, topics=names(topics, "topics") or erased.topics)
    with found_to_read(spark, log_dirs) as (found, others):
        result = check_key_hashes(spark, found, erased, progress or Silence())
        notes = (*result.notes, *view_notes())
    left_out = (f"{other.log_dir}: {other.message}" for other in others)
    return replace(result, not_searched=(*result.not_searched, *left_out), notes=notes)
