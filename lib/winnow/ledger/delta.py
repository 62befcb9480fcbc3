"""Delta Lake's classes in a running JVM. Spark does not bring them."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.errors import WinnowError
from winnow.ledger.fetch_jars import FetchError, fetch_listed, listed_jars
from winnow.resources import cache_dir, resource

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOADER = "org.apache.spark.util.MutableURLClassLoader"


def fetched_jars() -> list[Path]:
    """Return Delta's jars on this machine. Fetch those that are missing, or raise WinnowError."""
    place = cache_dir() / "jars"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            fetch_listed(resource("conf/jars.txt"), place)
        except FetchError as error:
            raise WinnowError("Delta's classes are missing", hint=str(error)) from error
    return sorted(place.glob("*.jar"))


def missing_jars() -> bool:
    """Return whether `fetched_jars` would fetch some."""
    place = cache_dir() / "jars"
    paths = listed_jars(resource("conf/jars.txt"))
    return not all((place / path.rpartition("/")[2]).is_file() for path in paths)


def provide_delta(sc: SparkContext) -> None:
    """Add Delta's jars to the driver, and to executors, unless the class path has them: a session
    may have been started without `spark-submit.sh`. Jars that are missing on this machine are
    fetched once.

    Raises WinnowError if that is impossible.
    """
    from py4j.java_gateway import JavaClass  # noqa: PLC0415 - `set-up` starts no Java

    jvm: Any = sc._jvm  # noqa: SLF001 - pyspark has no other way to the JVM
    if isinstance(jvm.io.delta.kernel.Table, JavaClass):
        return
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getClass().getName() != _LOADER:
        raise WinnowError(
            "Delta's classes are missing",
            hint="Put delta-spark's jars on the driver's class path.",
        )
    for jar in fetched_jars():
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        if not sc._jsc.sc().isLocal():  # noqa: SLF001 - as above
            sc._jsc.addJar(str(jar))  # noqa: SLF001 - as above
