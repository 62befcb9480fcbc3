"""Append to the ledger's Delta table in one commit, with Delta Kernel in the driver's JVM.

Kernel writes Delta's log and Parquet without Spark SQL. The first append of a JVM costs a fraction
of `DataFrame.write`, no executor takes part, and the caller's session needs no settings. Any reader
of Delta can read the result.
"""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from winnow.cleaning.result import RunResult
from winnow.errors import WinnowError
from winnow.ledger.delta import provide_delta
from winnow.ledger.foreign import check_files, check_ours
from winnow.ledger.place import local_path, table_url
from winnow.ledger.schema import SCHEMAS
from winnow.runtime.progress import Progress, Silence
from winnow.storage.output_file import open_lock
from winnow.storage.private import ensure_private
from winnow.verbs.erase.values import EraseResult
from winnow.version import VERSION
from winnow.words import redacted

if TYPE_CHECKING:
    from pyspark import SparkContext

_Result = TypeVar("_Result", RunResult, EraseResult)
_log = logging.getLogger(__name__)

ATTEMPTS = 5
LOCK = "append.lock"
LOCK_SECONDS = 30
_CREATED_BY_ANOTHER = (
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "TableAlreadyExistsException",
)
_ELSEWHERE = "--ledger names another place."
_PARTS = 20
_MOST_ROWS = 500
"""How many rows are sent to the JVM at once, at most."""
_ONCE = 1
"""Version of the one transaction that a run makes under its own id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What a run adds to one of a ledger's tables."""

    table: str
    rows: Sequence[str]
    """One JSON object each, without a line break."""
    run_id: str


def recorded(ledger: str, result: _Result, write: Callable[[], object]) -> _Result:
    """Write to the ledger, and return the result, which says whether the run is there. A ledger
    that can't be written does not fail the run.
    """
    try:
        write()
    except Exception as error:  # noqa: BLE001 - whatever happens there
        if not isinstance(error, WinnowError):
            _log.exception("the ledger could not be written")
        what = f"{error}".partition("\n")[0] or type(error).__name__
        note = f"THE RUN IS NOT IN THE LEDGER {ledger}; everything else was done: {what}"
        return replace(result, notes=(*result.notes, redacted(note)))
    return replace(result, ledger=redacted(ledger))


def append(
    sc: SparkContext, ledger: str, addition: Addition, progress: Progress | None = None
) -> None:
    """Add a run to the ledger, unless it is in it. Create the ledger if it does not exist.
    `progress` counts rows.

    Other writers may be active. Raises WinnowError if the ledger can't be written.
    """
    provide_delta(sc)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with _alone(ledger):
                check_files(ledger, addition.table)
                check_ours(ledger, addition.table)
                _append(sc, table_url(ledger, addition.table), addition, progress or Silence())
                return
        except PySparkException as error:  # of what pyspark has a class for
            raise _unwritable(ledger, type(error).__name__, str(error)) from error
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            if kind == "ConcurrentTransactionException":  # it is in the ledger
                return
            # Writers that append don't conflict: Kernel retries. Writers that create a table do.
            if kind not in _CREATED_BY_ANOTHER or attempt == ATTEMPTS:
                what = str(error.java_exception.getMessage())
                raise _unwritable(ledger, kind, what) from error


def _unwritable(ledger: str, kind: str, what: str) -> WinnowError:
    line = what.strip().partition("\n")[0]
    return WinnowError(f"Delta could not write: {kind}: {line}", where=ledger, hint=_ELSEWHERE)


@contextmanager
def _alone(ledger: str) -> Iterator[None]:
    """Exclude the other processes of this machine, if the ledger is on it.

    When two commits create the same file at the same time, Hadoop's local file system would let the
    second one replace the first.
    """
    directory = local_path(ledger)
    if directory is None:
        yield
        return
    check_ours(ledger)
    try:
        ensure_private(str(directory))
        lock = open(open_lock(directory / LOCK), "rb")  # noqa: SIM115 - closed by the block below
    except OSError as error:
        raise WinnowError(
            f"can't write the ledger: {error.strerror}",
            where=str(directory),
            hint=_ELSEWHERE,
        ) from error
    with lock:
        for _ in range(LOCK_SECONDS * 20):
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        else:
            raise WinnowError(
                "another process holds the ledger's lock",
                where=str(directory / LOCK),
                hint="`fuser` shows which one.",
            )
        yield


def _append(sc: SparkContext, url: str, addition: Addition, progress: Progress) -> None:
    # pyspark has no other way to the JVM.
    jvm: Any = sc._jvm  # noqa: SLF001
    hadoop = sc._jsc.hadoopConfiguration()  # noqa: SLF001
    progress.stage("writing the ledger", total_tasks=len(addition.rows))
    kernel, nothing = jvm.io.delta.kernel, jvm.java.util.Optional.empty()
    engine = kernel.defaults.engine.DefaultEngine.create(hadoop)
    schema = kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(
        SCHEMAS[addition.table].json()
    )
    transaction = _transaction(kernel, engine, url, schema, run_id=addition.run_id)
    batches, last = jvm.java.util.ArrayList(), 0
    # In parts: some, to see progress, and not too many calls.
    length = min(_MOST_ROWS, max(1, len(addition.rows) // _PARTS))
    for first in range(0, len(addition.rows), length):
        rows = addition.rows[first : first + length]
        # One string for many rows: a call to the JVM costs as much as a thousand bytes.
        lines = jvm.org.apache.hadoop.util.StringUtils.getStringCollection(
            redacted("\n".join(rows)), "\n"
        )
        vector = kernel.defaults.internal.data.vector.DefaultGenericVector
        column = vector.fromList(kernel.types.StringType.STRING, lines)
        batch = engine.getJsonHandler().parseJson(column, schema, nothing)
        batches.add(kernel.data.FilteredColumnarBatch(batch, nothing))
        progress.advance(last)
        last = len(rows)
    state, unpartitioned = transaction.getTransactionState(engine), jvm.java.util.HashMap()
    logical = kernel.internal.util.Utils.toCloseableIterator(batches.iterator())
    physical = kernel.Transaction.transformLogicalData(engine, state, logical, unpartitioned)
    context = kernel.Transaction.getWriteContext(engine, state, unpartitioned)
    # Not the context's target directory: blanks and percent signs are encoded there, which would
    # name another directory.
    files = engine.getParquetHandler().writeParquetFiles(
        url, physical, context.getStatisticsColumns()
    )
    actions = kernel.Transaction.generateAppendActions(engine, state, files, context)
    committed = transaction.commit(engine, kernel.utils.CloseableIterable.inMemoryIterable(actions))
    for hook in committed.getPostCommitHooks():
        # Occasionally write a checkpoint, and a checksum that saves the next reader from adding up
        # the table's size.
        if hook.getType().toString() in ("CHECKPOINT", "CHECKSUM_SIMPLE"):
            hook.threadSafeInvoke(engine)
    progress.advance(last)  # not before everything is committed


def _transaction(kernel: Any, engine: Any, url: str, schema: Any, *, run_id: str) -> Any:  # noqa: ANN401
    """Return a transaction that Delta does not repeat for the same run."""
    table = kernel.Table.forPath(engine, url)
    try:
        table.getLatestSnapshot(engine)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "TableNotFoundException":
            raise
        operation = kernel.Operation.CREATE_TABLE
    else:
        operation = kernel.Operation.WRITE
    builder = table.createTransactionBuilder(engine, f"winnow/{VERSION}", operation)
    if operation == kernel.Operation.CREATE_TABLE:
        builder = builder.withSchema(engine, schema)
    return builder.withTransactionId(engine, run_id, _ONCE).build(engine)
