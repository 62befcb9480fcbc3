"""Winnow's Python API. `plan`, `clean`, `explain` and `verify` Kafka log directories with the
caller's SparkSession. `recover` needs no Spark. What only one verb needs is imported by its
function: all of it takes 0.2 s, while Spark starts.

from winnow.api import clean, plan
from winnow.policy.sources import Settings, parse_server_properties

settings = Settings(server_properties=parse_server_properties(text))
result = clean(spark, ["/var/lib/kafka"], settings=settings, now=1_795_300_000_000)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from winnow.arguments import checked
from winnow.cleaning.request import LookOptions, Request, RunOptions, new_run_id
from winnow.cleaning.result import RunResult
from winnow.cleaning.run import opened
from winnow.clock import now_ms
from winnow.ledger.append import append, recorded
from winnow.ledger.place import ERASURES, check_ledger
from winnow.ledger.rows import cleaning, erasure, who
from winnow.logdir.lock import lock_to_read
from winnow.logdir.survey import doubts_in, survey_log_dirs
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Settings
from winnow.runtime.cancel import cancelling_jobs
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.same_directories import same_directories
from winnow.runtime.session import WithContext
from winnow.runtime.stop import Stop
from winnow.storage.places import Places
from winnow.verbs.output.run import Destinations, run_anywhere
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from winnow.ledger.history import read_history as history
    from winnow.ledger.history import read_ledger as ledger_table
    from winnow.recovery.runs.run import recover_log_dirs as recover
    from winnow.verbs.compare.values import CompareResult
    from winnow.verbs.doctor.values import Diagnosis
    from winnow.verbs.erase.values import EraseResult
    from winnow.verbs.explain.values import Explanation
    from winnow.verbs.verify.findings import Finding
    from winnow.verbs.verify.key_hashes import KeyHashResult
    from winnow.verbs.verify.verify import SweepResult

__all__ = [
    "clean",
    "compare_replicas",
    "doctor",
    "erase",
    "erasures",
    "explain",
    "history",
    "ledger_table",
    "plan",
    "recover",
    "verify",
    "verify_key_hashes",
]

_ELSEWHERE = {
    "history": ("winnow.ledger.history", "read_history"),
    "ledger_table": ("winnow.ledger.history", "read_ledger"),
    "recover": ("winnow.recovery.runs.run", "recover_log_dirs"),
}


def __getattr__(name: str) -> object:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, function = _ELSEWHERE[name]
    return getattr(import_module(module), function)


class PlanOptions(RunOptions, Destinations, total=False):
    """Options of `plan`: the fields of `Request`, and where a cleaned copy would be written."""


class CleanOptions(PlanOptions, total=False):
    ledger: str | None
    """Directory or URL of the ledger that records the run. None: the run is not recorded."""


class EraseOptions(TypedDict, total=False):
    """Options of `erase`."""

    settings: Settings | None
    """Index intervals, and which topics are tiered; Kafka's defaults without them."""
    topics: str | Sequence[str]
    """Globs. Empty: all topics. Kafka's own topics match only by their names."""
    dry_run: bool
    """Only count. A dry run changes nothing and is not recorded."""
    ledger: str | None
    certificate: str | None
    """Directory for a certificate. None: none is written."""
    progress: Progress | None
    stop: Stop | None


class ExplainOptions(LookOptions, total=False):
    """Options of `explain`: those that `plan` decides by, and one record or one key."""

    offset: int | None
    key: bytes | None


@checked
def plan(spark: WithContext, log_dirs: Sequence[str], **options: Unpack[PlanOptions]) -> RunResult:
    """Return what `clean` would do with these log directories and why. Changes nothing in them.

    `options`: see `PlanOptions`. With `output`, or if a log directory is a URL, it writes a private
    copy and deletes it. Raises UsageError for a directory that is not a Kafka log directory,
    LogDirInUseError if a broker is running on it, and StoppedError if the run was stopped before it
    had a result.
    """
    places = _destinations(options)
    return run_anywhere(spark, log_dirs, Request.of(options, touch=False), **places)


@checked
def clean(
    spark: WithContext, log_dirs: Sequence[str], **options: Unpack[CleanOptions]
) -> RunResult:
    """Apply each topic's cleanup policy to these log directories, as Kafka would.

    A partition that can't be understood, or whose policy is unknown, is left unchanged and
    reported. `output` names one directory or URL for each log directory: the cleaned copies are
    written there, and the log directories are only read. If the ledger can't be written, a note
    says so, `RunResult.ledger` is None, and the run still succeeds. Raises as `plan` does, and
    UsageError for a ledger inside a log directory.
    """
    ledger, places = options.pop("ledger", None), _destinations(options)
    request = Request.of(options, touch=True)
    output = places.get("output") or ()
    if ledger is not None:
        check_ledger(ledger, (*log_dirs, *output))
    started = now_ms()
    result = run_anywhere(spark, log_dirs, request, **places)
    if ledger is None:
        return result
    addition = cleaning(result, log_dirs=log_dirs, started=started, ended=now_ms())
    sc = spark.sparkContext
    return recorded(ledger, result, lambda: append(sc, ledger, addition, request.progress))


def _destinations(options: PlanOptions) -> dict[str, Any]:
    """Remove them from `options` and return them."""
    given: dict[str, Any] = options  # type: ignore[assignment]
    return {name: given.pop(name) for name in Destinations.__annotations__ if name in given}


@checked
def erase(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    keys: Sequence[bytes] | DataFrame | Any,  # noqa: ANN401 - Arrow has no types
    **options: Unpack[EraseOptions],
) -> EraseResult:
    """Remove every record with one of the keys from all segments that can be rewritten, whatever
    the cleanup policy, and read everything again to prove it. Offsets, checkpoints and all other
    records are unchanged.

    `keys`: bytes, an Arrow array of them, or a DataFrame with a column `key`, binary or string.
    `options`: see `EraseOptions`. The ledger stores hashes of the keys under
    `EraseResult.hash_key`. Only the result contains that hash key.

    The active segment, and segments that reach the high watermark, are searched but not changed.
    Raises UsageError if there are no keys, and otherwise as `plan` does.
    """
    from winnow.cleaning.in_place import check_in_place  # noqa: PLC0415
    from winnow.kafka_log.source import check_paths  # noqa: PLC0415
    from winnow.report.certificate import Circumstances, certified, check_place  # noqa: PLC0415
    from winnow.verbs.erase.erase import NO_CLOCK, erase_from  # noqa: PLC0415
    from winnow.verbs.erase.key_hashes import hash_keys  # noqa: PLC0415
    from winnow.verbs.erase.keys import different_keys  # noqa: PLC0415
    from winnow.verbs.starts import starts_of  # noqa: PLC0415

    progress, ledger = options.get("progress") or Silence(), options.get("ledger")
    dry_run = options.get("dry_run", False)
    different, started = different_keys(keys), now_ms()
    if not dry_run:
        check_in_place(log_dirs)
    if ledger is not None:
        check_ledger(ledger, log_dirs)
    certificate = None if dry_run else options.get("certificate")
    if certificate is not None:
        check_place(certificate, log_dirs)
    asked = {name: options.get(name) for name in ("topics", "stop", "progress")}
    asked |= {"settings": options.get("settings") or Settings(), "now": 0}
    request = Request.of(asked, touch=not dry_run)
    with opened(spark, log_dirs, request, one_node="erase") as (dirs, known, notes):
        if not dry_run:
            check_paths([d.path for d in dirs])
        with cancelling_jobs(spark.sparkContext, known.stop):
            without_clock = replace(known, now=NO_CLOCK)
            result = erase_from(spark, dirs, without_clock, different, run_id=new_run_id())
        starts = starts_of(
            spark.sparkContext, dirs, known.settings, wanted=known.wants, progress=progress
        )
        result = replace(result, notes=(*notes, *result.notes), starts=starts)
    if dry_run or (ledger is None and certificate is None):
        return result
    hashes, ended = hash_keys(key.as_py() for key in different), now_ms()
    if ledger is not None:
        row = erasure(result, hashes, log_dirs=log_dirs, started=started, ended=ended)
        sc = spark.sparkContext
        result = recorded(ledger, result, lambda: append(sc, ledger, row, progress))
    if certificate is not None:
        result = certified(certificate, result, hashes, Circumstances(*who(), started, ended, dirs))
    is_kept = result.ledger or result.certificate
    return replace(result, hash_key=hashes.hash_key if is_kept else None)


@checked
def erasures(spark: SparkSession, ledger: str) -> DataFrame:
    """Return the erasures in a ledger, one row each, with the columns of
    `winnow.ledger.schema.LEDGER_OF_ERASURES`.

    Raises UsageError if there are none.
    """
    from winnow.ledger.history import read_ledger  # noqa: PLC0415

    return read_ledger(spark, ledger, ERASURES)


@checked
def explain(
    spark: WithContext, log_dirs: Sequence[str], partition: str, **options: Unpack[ExplainOptions]
) -> Explanation:
    """Explain why `clean` would or would not clean a partition, and what it would do with the
    record at `offset`, or with all records that have `key`. Changes nothing in the log directories.

    `partition`: TOPIC-PARTITION, the name of its directory. `options`: see `ExplainOptions`. Raises
    UsageError as `plan` does, for a partition that does not exist, and for an offset together with
    a key.
    """
    from winnow.verbs.explain.explain import check_question, explain_partition, home_of  # noqa: PLC0415

    question = options.pop("offset", None), options.pop("key", None)
    check_question(*question)
    request = Request.of(options, touch=False)
    with opened(spark, log_dirs, request, one_node="explain") as (dirs, request, notes):
        home = home_of(dirs, partition)
        request.progress.stage(f"looking at {partition}")
        answer = explain_partition(spark.sparkContext, home, request, *question)
    return replace(answer, notes=(*doubts_in(dirs), *notes))


@checked
def doctor(
    spark: WithContext,
    log_dirs: Sequence[str],
    *,
    settings: Settings,
    now: int,
    topics: str | Sequence[str] = (),
    deep: bool = False,
    progress: Progress | None = None,
) -> Diagnosis:
    """Report what is wrong with these log directories, what would free space, and which command to
    run next.

    `deep`: also read all records of compacted topics, and report records without a key and
    tombstones by age. Changes nothing. After an unclean shutdown it reads what a broker would
    recover. Arguments and errors are as for `plan`.
    """
    from winnow.verbs.doctor.diagnose import diagnose  # noqa: PLC0415

    asked = {"settings": settings, "topics": topics, "now": now, "progress": progress}
    with opened(spark, log_dirs, Request.of(asked, touch=False)) as (dirs, request, notes):
        diagnosis = diagnose(spark.sparkContext, dirs, request, deep=deep)
    return replace(diagnosis, notes=notes)


@contextmanager
def _found_to_read(
    spark: WithContext, log_dirs: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[Finding]]]:
    """Yield the log directories among these places, locked, and findings about the others. Tasks
    check that they have them.
    """
    from winnow.verbs.verify.directories import find_log_dirs  # noqa: PLC0415

    with ExitStack() as locks:
        found, others = find_log_dirs(Places(), log_dirs)
        for path in found:
            locks.enter_context(lock_to_read(path))
        locks.enter_context(same_directories(spark.sparkContext, found))
        yield found, others


@checked
def verify(
    spark: WithContext,
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str] = (),
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    progress: Progress | None = None,
) -> SweepResult:
    """Read every batch, record, index and side file of these log directories and report everything
    that is wrong.

    Changes nothing. `topics`: globs. Empty: all topics, including Kafka's own. A batch that
    decompresses to more than `max_decompressed_bytes` is reported and not read
    (`max.decompressed.message.bytes`). Raises UsageError for a directory that is not a Kafka log
    directory, and LogDirInUseError if a broker is running on it.
    """
    from winnow.verbs.starts import starts_beneath  # noqa: PLC0415
    from winnow.verbs.verify.verify import sweep  # noqa: PLC0415

    progress = progress or Silence()
    with _found_to_read(spark, log_dirs) as (found, others):
        swept = sweep(
            spark.sparkContext,
            found,
            topics=topics,
            max_decompressed_bytes=max_decompressed_bytes,
            progress=progress,
        )
        wanted = partial(is_wanted, globs=topics)
        every = [*found, *(one.log_dir for one in others)]
        return replace(
            swept,
            findings=(*others, *swept.findings),
            starts=starts_beneath(spark.sparkContext, every, wanted, progress),
        )


@checked
def verify_key_hashes(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    key_hash: str,
    hash_key: str | None = None,
    ledger: str | None = None,
    topics: Sequence[str] = (),
    progress: Progress | None = None,
) -> KeyHashResult:
    """Count the records that have a key which was erased, without knowing the keys.

    `key_hash`: the certificate of the erasure, or its run id in `ledger`. `hash_key`: the file with
    its hash key. None: the one beside the certificate. `topics`: names. Empty: those of the
    erasure. Raises UsageError for an erasure that can't be used, and as `verify` does.
    """
    from winnow.ledger.history import erased_in_ledger  # noqa: PLC0415
    from winnow.report.certificate import read_certificate  # noqa: PLC0415
    from winnow.verbs.verify.key_hashes import check_key_hashes  # noqa: PLC0415

    if os.path.exists(key_hash) or key_hash.endswith(".json"):
        erased = read_certificate(key_hash, hash_key)
    else:
        erased = erased_in_ledger(spark, ledger, key_hash, hash_key)
    erased = replace(erased, topics=tuple(topics) or erased.topics)
    with _found_to_read(spark, log_dirs) as (found, others):
        result = check_key_hashes(spark, found, erased, progress or Silence())
    left_out = (f"{one.log_dir}: {one.message}" for one in others)
    return replace(result, not_searched=(*result.not_searched, *left_out))


@checked
def compare_replicas(
    spark: WithContext,
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str] = (),
    progress: Progress | None = None,
) -> CompareResult:
    """Compare the replicas of each partition in these log directories, of several brokers or of
    copies of one. Report the first difference that a consumer could see (docs/decisions/0023).

    Changes nothing. `topics`: globs. Empty: all topics, including Kafka's own. Raises UsageError
    for a directory that is not a Kafka log directory, LogDirInUseError if a broker is running on
    it, and CorruptLogError for a checkpoint that can't be read.
    """
    from winnow.verbs.compare.compare import compare  # noqa: PLC0415

    with _found_to_read(spark, log_dirs) as (found, others):
        # Survey each directory separately: a copy has the node.id of its original.
        dirs = [log_dir for path in found for log_dir in survey_log_dirs(Places(), [path])]
        result = compare(spark.sparkContext, dirs, topics=topics, progress=progress or Silence())
    left_out = (f"{one.log_dir}: {one.message}" for one in others)
    return replace(result, not_compared=(*result.not_compared, *left_out))
