"""Fixtures for all tests: writable copies of recorded log directories, Kafka itself as the judge,
and Spark.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

# With numba loaded, as in Spark's workers, kernels do everything (`tests.twins.no_numba`).
import winnow.compiled  # noqa: F401
from tests.crash.tried import tried
from tests.disks import memory
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.kafka.judge.judge import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# No deadline: the first example may compile a kernel. In CI the examples are always the same,
# elsewhere they are new.
hypothesis.settings.register_profile("winnow", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("winnow")


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """Kafka's cleaner, retention, loader and dump in one JVM; fetched from Maven Central on first
    use.
    """
    with Kafka() as judge:
        yield judge


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A fresh writable copy of the whole recorded log directory (16 MB, 34 partitions)."""
    return copy_log_dir("clean", tmp_path / "log-dir")


@pytest.fixture(scope="session")
def topic_configs() -> Path:
    """Settings of the topics in `log_dir`, a file of lines `topic key=value`."""
    return TOPIC_CONFIGS


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What runs leave with the user's other state lies with the tests' files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _environment_stays() -> Iterator[None]:
    """A verb that starts Spark in this process sets where Spark's files lie."""
    before, place = dict(os.environ), tempfile.tempdir
    yield
    os.environ.clear()
    os.environ.update(before)
    tempfile.tempdir = place


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: starts a SparkSession (one for all tests)")
    if place := memory():
        # Of `tmp_path` and `tmp_path_factory`.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One directory after the other, since the files of one share servers; shuffled only within it.
    The short ones, of tests/unit, come last: of two processes none is then left alone with a long
    one.
    """
    items.sort(key=lambda item: item.path.parent)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the counts of this worker process (pytest-xdist) to the main process."""
    if isinstance(told := getattr(session.config, "workeroutput", None), dict):
        told["crash points"] = dict(tried)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    tried.update(getattr(node, "workeroutput", {}).get("crash points", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if tried:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tried.items()))
        terminalreporter.write_line(f"crash points tried: {tried.total()} ({kinds})")


def local_session() -> SparkSession:
    """A session on two cores of this machine, otherwise as `./spark-submit.sh` makes it."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - other tests start sooner without it

    root = Path(__file__).resolve().parent.parent
    # Workers are forked by the JVM, which hands its environment on.
    paths = [
        str(root / "lib"),
        str(root),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    for line in (root / "conf" / "spark-defaults.conf").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            builder = builder.config(*line.split(maxsplit=1))
    builder = builder.master("local[2,4]").config(
        "spark.python.daemon.module", "winnow.worker.daemon"
    )
    return builder.config("spark.log.level", "ERROR").getOrCreate()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """`local_session`, one for all tests."""
    session = local_session()
    yield session
    session.stop()
