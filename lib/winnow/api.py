"""Winnow's Python API: `plan`, `clean`, `explain`, `verify` Kafka log directories with a SparkSession of the caller's;
`recover` them without one.

from winnow.api import clean, plan
from winnow.policy.sources import Settings, parse_server_properties

settings = Settings(server_properties=parse_server_properties(text))
result = clean(spark, ["/var/lib/kafka"], settings=settings, now=1_795_300_000_000)
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from winnow.clock import now_ms
from winnow.engine.cancel import cancelling_jobs
from winnow.engine.clean import CarriedOut
from winnow.engine.compare.compare import compare
from winnow.engine.compare.values import CompareResult
from winnow.engine.corrupt import carry_out_with_quarantine, damaged_first
from winnow.engine.doctor.diagnose import diagnose
from winnow.engine.doctor.values import Diagnosis
from winnow.engine.elsewhere.clean import Elsewhere, clean_elsewhere
from winnow.engine.erase.erase import NO_CLOCK, erase_from
from winnow.engine.erase.keys import different_keys
from winnow.engine.erase.values import EraseResult
from winnow.engine.estimate import weigh
from winnow.engine.explain.explain import Question, explain_partition
from winnow.engine.explain.values import Explanation
from winnow.engine.foresee import foresee
from winnow.engine.free import delete_first, freed_bytes, only_what_is_needed, what_is_short
from winnow.engine.prepare import OnCorrupt, Prepared, Request, prepare
from winnow.engine.progress import Progress, Silence
from winnow.engine.result import RunResult
from winnow.engine.settings import io_rate, with_metadata
from winnow.engine.stop import Stop
from winnow.engine.sweep.log_dirs import find_log_dirs
from winnow.engine.sweep.sweep import SweepResult, sweep
from winnow.engine.throttle import limiting_io
from winnow.errors import UsageError, WinnowError
from winnow.ledger.append import append, append_rows
from winnow.ledger.erasures import erasure, hash_keys
from winnow.ledger.history import History, read_history, read_ledger
from winnow.ledger.place import ERASURES, check_ledger
from winnow.ledger.rows import Entry, entry_of
from winnow.logdir.listing import LogDir, survey_log_dirs
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.lock_reach import why_seen_here_only
from winnow.logdir.names import parse_partition_dir
from winnow.logdir.survey import check_one_node
from winnow.policy.sources import Settings
from winnow.recover.run import recover_log_dirs
from winnow.recover.values import RecoverResult
from winnow.storage.local import LocalStorage
from winnow.storage.open_store import is_remote, open_store
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

Only = Literal["retention", "compaction"]
UncleanShutdown = Literal["refuse", "below-recovery-point"]
"""What to do about log directories whose broker was not shut down cleanly (S8.2): leave them as they are, or work on
segments that lie entirely below recovery point, high watermark and last stable offset, and on nothing else."""

Seen = Callable[[Sequence[Prepared], Request], None]


def plan(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str] = (),
    only: Only | None = None,
    unclean_shutdown: UncleanShutdown = "refuse",
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    free_at_least: int | None = None,
    throttle: float | None = None,
    estimate: bool = False,
    output: Sequence[str] = (),
    work_dir: str | None = None,
    work_space: int | None = None,
    seen: Seen | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> RunResult:
    """What `clean` would do with these log directories and why. Changes nothing in them.

    `now`: the clock of every decision, ms since the epoch. `topics`: globs, all topics if there are none.
    `unclean_shutdown`: see `UncleanShutdown`. `on_corrupt`: what `clean` is to do about damage, see `OnCorrupt`.
    `max_extra_space`: bytes that may be written before as many are removed, in all; None: what the disks have free.
    `free_at_least`: of what retention lets go delete the oldest segments that have so many bytes, and do nothing else.
    `estimate`: read all records of what is to be compacted, as `clean` does, and tell exactly what would be left.
    `seen`: is told what all decisions rest on before anything is done; what it raises ends the run.
    `throttle`: bytes of segments that all tasks read and write per second at most; None: what
    `log.cleaner.io.max.bytes.per.second` says. `stop`: lets another thread end the run early.
    `output`, `work_dir`, `work_space`: as for `clean`; then, and where a log directory is a URL, nothing is written but
    a private copy of it, which is thrown away.
    Raises UsageError for what is not a Kafka log directory, LogDirInUseError where a broker runs on one, and
    StoppedError if the run was stopped before there was a result.
    """
    return _run_anywhere(
        _elsewhere(log_dirs, output, begin_again=False, work_dir=work_dir, work_space=work_space),
        spark,
        log_dirs,
        "plan",
        settings=settings,
        now=now,
        topics=topics,
        only=only,
        unclean_shutdown=unclean_shutdown,
        on_corrupt=on_corrupt,
        max_extra_space=max_extra_space,
        free_at_least=free_at_least,
        throttle=throttle,
        estimate=estimate,
        seen=seen,
        progress=progress,
        stop=stop,
    )


def clean(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str] = (),
    only: Only | None = None,
    unclean_shutdown: UncleanShutdown = "refuse",
    keep_replaced: bool = False,
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    free_at_least: int | None = None,
    throttle: float | None = None,
    ledger: str | None = None,
    output: Sequence[str] = (),
    begin_again: bool = False,
    work_dir: str | None = None,
    work_space: int | None = None,
    seen: Seen | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> RunResult:
    """Applies each topic's cleanup policy to these log directories, as Kafka would (arguments as for `plan`).

    `keep_replaced`: what the run replaces or deletes stays on the disk, where brokers don't see it, until `recover`
    undoes the run or purges what it kept. Nothing is freed until then.
    A partition that can't be understood, or whose policy is not known, is left as it is and reported.
    `ledger`: directory or URL of a ledger that the run is written to when all is done. That it can't be written changes
    nothing else: a note says so, and `RunResult.ledger` is None. UsageError if it lies in a log directory.
    `output`: a directory or URL for each log directory, where the cleaned one is written; then the log directories,
    which may be URLs as well, are only read. `begin_again`: remove what a run that did not finish left there.
    `work_dir`, `work_space`: see `winnow.engine.elsewhere.clean.Elsewhere`.
    """
    if ledger is not None:
        check_ledger(ledger, (*log_dirs, *output))
    if output and (keep_replaced or free_at_least is not None):
        raise UsageError("what is written elsewhere replaces and frees nothing", hint="Leave those options out.")
    elsewhere = _elsewhere(log_dirs, output, begin_again=begin_again, work_dir=work_dir, work_space=work_space)
    started = now_ms()
    result = _run_anywhere(
        elsewhere,
        spark,
        log_dirs,
        "clean",
        settings=settings,
        now=now,
        topics=topics,
        only=only,
        unclean_shutdown=unclean_shutdown,
        keep_replaced=keep_replaced,
        on_corrupt=on_corrupt,
        max_extra_space=max_extra_space,
        free_at_least=free_at_least,
        throttle=throttle,
        seen=seen,
        progress=progress,
        stop=stop,
    )
    if ledger is None:
        return result
    (progress or Silence()).stage("writing the ledger")
    return _recorded(spark, ledger, entry_of(result, log_dirs=log_dirs, started=started, ended=now_ms()))


def _recorded(spark: SparkSession, ledger: str, entry: Entry) -> RunResult:
    """The result that says whether it is in the ledger."""
    note = _note_unless(ledger, lambda: append(spark.sparkContext, ledger, entry))
    if note is not None:
        return replace(entry.result, notes=(*entry.result.notes, note))
    return replace(entry.result, ledger=ledger)


def _note_unless(ledger: str, write: Callable[[], object]) -> str | None:
    """What is to be said of a ledger that could not be written; None if it could."""
    try:
        write()
    except Exception as error:  # noqa: BLE001 - what was done is done, whatever is wrong with the ledger
        if not isinstance(error, WinnowError):
            _log.exception("the ledger could not be written")
        what = f"{error}".partition("\n")[0] or type(error).__name__
        return f"THE RUN IS NOT IN THE LEDGER {ledger}, though all else was done as told: {what}"
    return None


def history(spark: SparkSession, ledger: str, *, since: int | None = None, topics: Sequence[str] = ()) -> History:
    """What the runs in a ledger did, and how long ago each partition was cleaned.

    `since`: only runs that ended then or later, ms since the epoch. `topics`: globs, all topics if there are none.
    Raises UsageError where there is no ledger.
    """
    return read_history(spark, ledger, since=since, topics=topics)


def ledger_table(spark: SparkSession, ledger: str) -> DataFrame:
    """All of a ledger: one row for each partition of each run, with the columns of `winnow.ledger.schema.LEDGER`.

    Raises UsageError where there is no ledger.
    """
    return read_ledger(spark, ledger)


def erase(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    keys: Sequence[bytes] | DataFrame | Any,  # noqa: ANN401 - Arrow has no types
    settings: Settings | None = None,
    topics: Sequence[str] = (),
    dry_run: bool = False,
    ledger: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> EraseResult:
    """Takes every record with one of the keys out of all segments that can be rewritten, whatever the cleanup policy,
    and reads everything again to prove it. Offsets, checkpoints and all other records stay as they are.

    `keys`: bytes, an Arrow array of them, or a DataFrame with a column `key`, binary or string. `settings`: index
    intervals and which topics are tiered; Kafka's defaults without them. `topics`: globs, all topics if there are none;
    Kafka's own only by their names. `dry_run`: look and count, change nothing. `ledger`: as for `clean`; the keys are
    in it as hashes under `EraseResult.hash_key`, which only the result tells. A dry run is not recorded.

    The active segment, and what lies at or above the high watermark, is looked into and not changed. Raises UsageError
    for no keys, and otherwise as `plan` does.
    """
    progress = progress or Silence()
    different, started = different_keys(keys), now_ms()
    if ledger is not None:
        check_ledger(ledger, log_dirs)
    with locked(log_dirs) as dirs:
        check_one_node(dirs, "erase")
        found_settings, found = with_metadata(settings or Settings(), LocalStorage(), dirs)
        request = Request(
            settings=found_settings,
            topics=tuple(topics),
            now=NO_CLOCK,
            only=None,
            touch=not dry_run,
            stop=stop or Stop(),
            progress=progress,
        )
        with cancelling_jobs(spark.sparkContext, request.stop):
            result = erase_from(spark, dirs, request, different, run_id=_new_run_id())
        skipped = (f"{d.path}/{s.name} is not looked into: {s.why}" for d in dirs for s in d.skipped)
        result = replace(result, notes=(*found_settings.notes(), *found, *skipped))
    if ledger is None or dry_run:
        return result
    progress.stage("writing the ledger")
    hashes = hash_keys(key.as_py() for key in different)
    addition = erasure(result, hashes, log_dirs=log_dirs, started=started, ended=now_ms())
    note = _note_unless(ledger, lambda: append_rows(spark.sparkContext, ledger, addition))
    if note is not None:
        return replace(result, notes=(*result.notes, note))
    return replace(result, ledger=ledger, hash_key=hashes.hash_key)


def erasures(spark: SparkSession, ledger: str) -> DataFrame:
    """The erasures in a ledger, a row each, with the columns of `winnow.ledger.erasures.LEDGER_OF_ERASURES`.

    Raises UsageError where there are none.
    """
    return read_ledger(spark, ledger, ERASURES)


def explain(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    partition: str,
    offset: int | None = None,
    key: bytes | None = None,
    settings: Settings,
    now: int,
    only: Only | None = None,
    unclean_shutdown: UncleanShutdown = "refuse",
    progress: Progress | None = None,
) -> Explanation:
    """Why `clean` would clean a partition, or would not, and what it would make of the record at `offset`, or of all
    records with `key`. Changes nothing in the log directories.

    `partition`: TOPIC-PARTITION, as its directory is called. The rest is as for `plan`.
    Raises UsageError as `plan` does, for a partition that is not there and for both an offset and a key.
    """
    if offset is not None and key is not None:
        raise UsageError("an offset and a key together", expected="one of them, or neither")
    if offset is not None and offset < 0:
        raise UsageError("an offset below 0", expected="0 or more", found=str(offset))
    progress = progress or Silence()
    with locked(log_dirs) as dirs:
        check_one_node(dirs, "explain")
        home = _home_of(dirs, partition)
        settings, found = with_metadata(settings, LocalStorage(), dirs)
        request = Request(
            settings=settings,
            topics=(),
            now=now,
            only=only,
            touch=False,
            below_recovery_point=unclean_shutdown == "below-recovery-point",
            progress=progress,
        )
        progress.stage(f"looking at {partition}")
        answer = explain_partition(spark.sparkContext, home, request, Question(offset, key))
    return replace(answer, notes=(*settings.notes(), *found))


def doctor(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str] = (),
    deep: bool = False,
    progress: Progress | None = None,
) -> Diagnosis:
    """What ails these log directories, what would free space in them, and which command comes next.

    `deep`: read all records of compacted topics as well, for those without a key and for tombstones by age.
    Changes nothing. After an unclean shutdown it looks at what lies below the recovery point. Arguments and errors
    are as for `plan`.
    """
    progress = progress or Silence()
    with locked(log_dirs) as dirs:
        settings, found = with_metadata(settings, LocalStorage(), dirs)
        request = Request(
            settings=settings,
            topics=tuple(topics),
            now=now,
            only=None,
            touch=False,
            below_recovery_point=True,
            progress=progress,
        )
        progress.stage(f"looking at {sum(len(d.partitions) for d in dirs)} partitions")
        diagnosis = diagnose(spark.sparkContext, dirs, request, deep=deep)
    return replace(diagnosis, notes=(*settings.notes(), *found))


def verify(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str] = (),
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    progress: Progress | None = None,
) -> SweepResult:
    """Reads every batch, record, index and side file of these log directories and tells all that is wrong.

    Changes nothing. `topics`: globs, all topics if there are none, Kafka's own included. `max_decompressed_bytes`:
    a batch that holds more is not read but named (`max.decompressed.message.bytes`).
    Raises UsageError for what is not a Kafka log directory and LogDirInUseError where a broker runs on one.
    """
    with ExitStack() as locks:
        found = find_log_dirs(LocalStorage(), log_dirs)
        for path in found:
            locks.enter_context(lock_log_dir(path))
        return sweep(
            spark.sparkContext,
            found,
            topics=topics,
            max_decompressed_bytes=max_decompressed_bytes,
            progress=progress or Silence(),
        )


def compare_replicas(
    spark: SparkSession,
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str] = (),
    progress: Progress | None = None,
) -> CompareResult:
    """Whether the replicas of each partition in these log directories, of several brokers or of copies of one, tell
    consumers the same: the first difference that matters (docs/decisions/0023).

    Changes nothing. `topics`: globs, all topics if there are none, Kafka's own included.
    Raises UsageError for what is not a Kafka log directory, LogDirInUseError where a broker runs on one and
    CorruptLogError for a checkpoint that can't be read.
    """
    storage = LocalStorage()
    with ExitStack() as locks:
        found = find_log_dirs(storage, log_dirs)
        for path in found:
            locks.enter_context(lock_log_dir(path))
        # Each by itself: a copy has the node.id of its original.
        dirs = [log_dir for path in found for log_dir in survey_log_dirs(storage, [path])]
        return compare(spark.sparkContext, dirs, topics=topics, progress=progress or Silence())


def _home_of(dirs: Sequence[LogDir], partition: str) -> LogDir:
    """The log directory that holds it, as one that holds nothing else."""
    wanted = parse_partition_dir(partition).topic_partition
    for log_dir in dirs:
        if wanted is not None and wanted in log_dir.partitions:
            return replace(log_dir, partitions=(wanted,))
        for skipped in log_dir.skipped:
            if skipped.name == partition:
                raise UsageError(
                    f"{partition} is never cleaned: {skipped.why}",
                    where=log_dir.path,
                    hint="`plan` lists those that are.",
                )
    where = ", ".join(log_dir.path for log_dir in dirs)
    raise UsageError("no such partition", found=partition, where=where, hint="`plan` lists those that are there.")


def _elsewhere(
    log_dirs: Sequence[str], output: Sequence[str], *, begin_again: bool, work_dir: str | None, work_space: int | None
) -> Elsewhere | None:
    """None: all of it is on this machine, and stays where it is."""
    if not output and not any(map(is_remote, log_dirs)):
        return None
    return Elsewhere(
        sources=[open_store(path) for path in log_dirs],
        destinations=[open_store(path) for path in output],
        begin_again=begin_again,
        work_dir=work_dir,
        work_space=work_space,
    )


def _run_anywhere(
    elsewhere: Elsewhere | None,
    spark: SparkSession,
    log_dirs: Sequence[str],
    verb: str,
    **asked: Any,  # noqa: ANN401 - those of `_run`
) -> RunResult:
    """`_run`, where it is to be done."""
    if elsewhere is None:
        return _run(spark, log_dirs, verb, **asked)
    if asked["seen"] is not None:
        raise UsageError(
            "a plan as a value is of log directories of this machine",
            found=", ".join(log_dirs),
            hint="`winnow.clean(..., output=...)` and the command line's `plan` take URLs.",
        )
    if verb == "plan":
        elsewhere = replace(elsewhere, destinations=())
    elif not elsewhere.destinations:
        raise UsageError(
            "a log directory that is not on this machine can't be cleaned in place",
            found=", ".join(filter(is_remote, log_dirs)),
            hint="Give --output, the place for the cleaned one.",
        )
    return clean_elsewhere(
        elsewhere,
        lambda copies: _run(spark, copies, verb, **asked),
        run_id=_new_run_id(),
        stop=asked["stop"] or Stop(),
        progress=asked["progress"] or Silence(),
    )


def _run(
    spark: SparkSession,
    log_dirs: Sequence[str],
    verb: str,
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str],
    only: Only | None,
    unclean_shutdown: UncleanShutdown,
    keep_replaced: bool = False,
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    free_at_least: int | None = None,
    estimate: bool = False,
    throttle: float | None,
    seen: Seen | None = None,
    progress: Progress | None,
    stop: Stop | None,
) -> RunResult:
    if free_at_least is not None and (only == "compaction" or keep_replaced):
        raise UsageError(
            "freeing space goes neither with compaction only nor with keeping what is replaced",
            hint="Leave one of them out.",
        )
    progress = progress or Silence()
    run_id = _new_run_id()
    with locked(log_dirs) as dirs:
        settings, found = with_metadata(settings, LocalStorage(), dirs)
        request = Request(
            settings=settings,
            topics=tuple(topics),
            now=now,
            only=only if free_at_least is None else "retention",
            touch=verb == "clean",
            stop=stop or Stop(),
            progress=progress,
            below_recovery_point=unclean_shutdown == "below-recovery-point",
            keep_replaced=keep_replaced,
            on_corrupt=on_corrupt,
            max_extra_space=max_extra_space,
        )
        if throttle is None:
            throttle = io_rate(settings, dirs)
        weighing = partial(weigh, spark.sparkContext, now=now, progress=progress)
        progress.stage(f"looking at {sum(len(d.partitions) for d in dirs)} partitions")
        with cancelling_jobs(spark.sparkContext, request.stop), limiting_io(spark.sparkContext, throttle):
            prepared = prepare(spark.sparkContext, dirs, request)
            if seen is not None:
                seen(prepared, request)
            refusal = damaged_first(prepared, request)
            if free_at_least is not None:
                prepared = only_what_is_needed(prepared, wanted=free_at_least)
            if refusal is not None:
                done = CarriedOut(refusal, 0)
            elif verb == "clean" and free_at_least is not None:
                done = delete_first(prepared, request, run_id=run_id)
            elif verb == "clean":
                done = carry_out_with_quarantine(spark.sparkContext, dirs, prepared, request, run_id=run_id)
            else:
                done = foresee(prepared, request, weigh=weighing if estimate else None)
        local = (note for d in dirs if (note := why_seen_here_only(d.path)))
        skipped = (f"{d.path}/{s.name} is left alone: {s.why}" for d in dirs for s in d.skipped)
        short = None if free_at_least is None else max(0, free_at_least - freed_bytes(prepared, done.partitions))
        lacking = [what_is_short(prepared, short=short)] if short else []
        notes = (*settings.notes(), *found, *local, *skipped, *lacking)
    return RunResult(
        run_id=run_id,
        verb=verb,
        now=now,
        partitions=tuple(done.partitions),
        notes=notes,
        refused=refusal is not None,
        short_bytes=short,
        peak_extra_bytes=done.peak_extra_bytes,
    )


def recover(
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str] = (),
    undo_run: str | None = None,
    purge_run: str | None = None,
    dry_run: bool = False,
) -> RecoverResult:
    """Puts right what a crash left; undoes a run that kept what it replaced, or purges it. Needs no Spark.

    See `winnow.recover.run.recover_log_dirs`.
    """
    return recover_log_dirs(log_dirs, topics=topics, undo_run=undo_run, purge_run=purge_run, dry_run=dry_run)


def _new_run_id() -> str:
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"


@contextmanager
def locked(log_dirs: Sequence[str]) -> Iterator[Sequence[LogDir]]:
    """The log directories, looked at again once nobody else can change them."""
    storage = LocalStorage()
    with ExitStack() as locks:
        # First without the lock: `.lock` is made only where a broker would have made it.
        for log_dir in survey_log_dirs(storage, log_dirs):
            locks.enter_context(lock_log_dir(log_dir.path))
        yield survey_log_dirs(storage, log_dirs)
