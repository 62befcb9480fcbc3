"""Spark for one verb: the session of spark-submit, otherwise one on this machine."""

from __future__ import annotations

import os
import pwd
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from winnow import runtime
from winnow.cli.out import complain
from winnow.cli.signals import held_back, interrupt_behind, let_jvm_pass_signals_on
from winnow.cli.text.progress import progress_on_stderr
from winnow.errors import UsageError, WinnowError
from winnow.resources import own_cache, resource
from winnow.runtime.run_directory import begin_run_directory, run_directory, temporary_place
from winnow.worker import standby
from winnow.worker.not_set_up import check_set_up
from winnow.worker.warm_up import ensure_compiled

if TYPE_CHECKING:
    from pyspark import SparkConf

_SOCKETS = "spark.python.unix.domain.socket"
_SOCKET_BYTES = 60
"""Most bytes in the directory's path. Spark refuses a longer one."""
_PARENT = os.getppid()
"""The JVM, if spark-submit started this process."""


@contextmanager
def started_spark(*, sql: bool, quiet: bool) -> Iterator[Any]:
    """Start Spark, and stop it after the block. Turn the error of a Spark that does not start into
    a WinnowError. `quiet`: show no progress.

    `sql`: for verbs that read tables. The others only run RDDs; their modules are imported while
    the JVM starts Spark.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - a mistyped command must not wait for Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from winnow.runtime.failed_job import cause_of  # noqa: PLC0415 - it knows Spark

    check_set_up()
    load = Thread(target=_load, name="winnow-load", daemon=True)
    if not sql:
        load.start()
    with progress_on_stderr(quiet=quiet) as progress:
        progress.stage("starting Spark")
        try:
            with held_back():
                spark = (_session if sql else _context)(_settings())
        except (Py4JError, PySparkException) as error:
            if ended := end_of_jvm(error):
                raise ended from error
            cause = cause_of(error)
            hint = "Look at --master, --conf and conf/spark-defaults.conf."
            if "native thread" in cause:
                hint = "Allow this user or container more processes: ulimit -u, pids.max."
            raise WinnowError("Spark did not start", found=cause, hint=hint) from error
        if not sql:
            load.join()  # otherwise the first worker would compile kernels too
    try:
        yield spark
    except BaseException as error:
        if interrupt_behind(error) is not None:
            with suppress(Exception):  # tasks that are under way fail, which is no news
                spark.sparkContext.setLogLevel("OFF")
        raise
    finally:
        if not _submitted():
            spark.stop()


def _load() -> None:
    import_module("winnow.api.run")
    ensure_compiled()


def _session(settings: SparkConf) -> Any:  # noqa: ANN401 - as `_context`
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.builder.config(conf=settings).getOrCreate()


def _context(settings: SparkConf) -> Any:  # noqa: ANN401 - what is used of a session
    """Start Spark without Spark SQL, which would take a second."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.errors.exceptions.captured import install_exception_handler  # noqa: PLC0415

    context = SparkContext.getOrCreate(settings)
    # It would print a trace if the JVM is killed.
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign] # noqa: SLF001
    # as a session does, so that an error in a worker has its own traceback
    install_exception_handler()
    return SimpleNamespace(sparkContext=context, stop=context.stop)


def _submitted() -> bool:
    """Return whether spark-submit started this process.

    If so, its settings apply, and it stops Spark when the job has ended. Stopping Spark here would
    take one second more, because pyspark waits that long for its accumulator server.
    """
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _settings() -> SparkConf:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if _submitted():
        _meet_jvm()
        settings = SparkConf()
        check_sockets(settings)
        _name_user()
        return settings
    if SparkContext._gateway is None:  # noqa: SLF001 - otherwise Java is already running
        # The Python workers that Java starts must not import from the current directory.
        os.environ["PYTHONSAFEPATH"] = "1"
        # Workers are of this very Python: the environment need not be activated.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        begin_run_directory(_temporary_place())
        log = f'-Dlog4j2.configurationFile="{resource("conf/log4j2.properties")}"'
        os.environ["SPARK_SUBMIT_OPTS"] += f" {log}"
    settings = SparkConf().set("spark.python.daemon.module", "winnow.worker.daemon")
    # as `spark-submit.sh` gives them
    for line in resource("conf/spark-defaults.conf").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            settings.setIfMissing(*line.split(maxsplit=1))
    authenticate(settings)
    place = run_directory()
    short = len(os.fsencode(place)) <= _SOCKET_BYTES
    settings.set(f"{_SOCKETS}.dir", place).set(f"{_SOCKETS}.enabled", str(short).lower())
    if SparkContext._gateway is None:  # noqa: SLF001
        if settings.get("spark.master", "").startswith("local"):
            os.environ[standby.VARIABLE] = f"{place}/standby"
            standby.start()
        SparkContext._ensure_initialized(gateway=_start_java(settings))  # noqa: SLF001
        let_jvm_pass_signals_on(SparkContext._gateway, ours=True)  # noqa: SLF001
    _name_user()
    return settings


def _meet_jvm() -> None:
    """Connect to the JVM of spark-submit. Raises WinnowError if it has ended, as by a signal."""
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark import SparkContext  # noqa: PLC0415

    try:
        SparkContext._ensure_initialized()  # noqa: SLF001 - reads spark-submit's arguments
        let_jvm_pass_signals_on(SparkContext._gateway, ours=False)  # noqa: SLF001
    except (Py4JError, OSError) as error:
        raise WinnowError(
            "the JVM that started this command has ended",
            found=str(error),
            hint="Nothing was read. A signal may have ended it; otherwise its message is above.",
        ) from error


def end_of_jvm(error: Exception) -> WinnowError | None:
    """Return what to say if the cause of the error is that the JVM has ended before the run."""
    lost = isinstance(error, ConnectionError | EOFError) or "Py4JNetwork" in type(error).__name__
    if not lost or "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext  # noqa: PLC0415

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - if it is our child
    for _ in range(20):  # its sockets are closed a moment before it has ended
        if process.poll() is not None if process else _submitted() and os.getppid() != _PARENT:
            return WinnowError(
                "the JVM, which runs Spark, has ended before the run",
                hint="Messages of Spark above may say why. Without one, the system may have killed "
                "it for lack of memory, as its log tells (dmesg): allow this machine or container "
                "more. The same command goes on with what is left.",
            )
        time.sleep(0.05)
    return None


def _temporary_place() -> str:
    """Return where the run's temporary files have space, with a note if that is not the usual one.
    Raises WinnowError if no place is left.
    """
    usual = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - a private directory is made there
    places = [usual, "/dev/shm"]  # noqa: S108
    if (cache := own_cache()) is not None:
        places.insert(1, str(cache))
        with suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
    place = temporary_place(places)
    if place is None:
        raise WinnowError(
            "no place for Spark's temporary files",
            expected="a directory that can be written and has 32 MiB of space",
            where=", ".join(places),
            hint="Choose one with the variable TMPDIR.",
        )
    if place != os.path.realpath(usual):
        complain(f"note: {usual} is full or can't be written; temporary files are in {place}")
    return place


def _start_java(settings: SparkConf) -> Any:  # noqa: ANN401 - py4j has no types
    """Start Java as `spark-submit.sh` does, without the warnings that Spark's own script causes."""
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    os.environ["SPARK_HOME"] = _find_spark_home()
    script = Path(runtime.__file__).with_name("java.sh")
    try:
        return launch_gateway(settings, {"executable": str(script)})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        with suppress(OSError):  # if Java itself failed, its messages are above
            told = Path(run_directory(), "java-failed").read_text(encoding="utf-8")
            # The sentence of java.sh says what to do.
            raise WinnowError(told.rstrip(".\n"), hint=None) from error
        raise WinnowError("Java did not start", hint="The message above says why.") from error


def _name_user() -> None:
    """Name a user whom the system does not know, as in containers. Hadoop would fail to."""
    from pyspark import SparkContext  # noqa: PLC0415

    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        name = os.environ.get("HADOOP_USER_NAME") or str(os.geteuid())
        users: Any = SparkContext._jvm  # noqa: SLF001 - as pyspark itself calls Java
        users = users.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(name))


def authenticate(settings: SparkConf) -> None:
    """Let Spark make a secret for its ports on this machine, as `spark-submit.sh` does. Every user
    can connect to them, and would read keys there. On a cluster only its owner can choose a secret.
    """
    if re.match(r"local($|\[)", settings.get("spark.master", "")):
        settings.setIfMissing("spark.authenticate", "true")


def check_sockets(settings: SparkConf) -> None:
    """Raise UsageError if Spark could not create its sockets. Spark itself would only report `No
    such file`.
    """
    place = settings.get(f"{_SOCKETS}.dir", None)
    if settings.get(f"{_SOCKETS}.enabled", "false") != "true" or place is None:
        return
    size = len(os.fsencode(place))
    if size <= _SOCKET_BYTES and os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK):
        return
    raise UsageError(
        "Spark can't create the sockets that connect it to Python",
        expected=f"a writable directory with a path of at most {_SOCKET_BYTES} bytes",
        found=f"{size} bytes"
        if size > _SOCKET_BYTES
        else "no directory"
        if not os.path.isdir(place)
        else "a directory that can't be written",
        where=place,
        hint=f"Choose another one with --conf {_SOCKETS}.dir=..., or use no sockets: --conf "
        f"{_SOCKETS}.enabled=false.",
    )
