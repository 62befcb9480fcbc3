"""A broker fills its disk until it dies. Winnow's `doctor` says what to do; then the broker starts.

What a full disk leaves, as seen with Kafka 4.3.1 on a tmpfs of 40 MiB:

* The append fails with "No space left on device", the log directory is marked as failed, and the
  process halts a moment later. A partition may end in a torn batch, in an empty segment without
  indexes, or with an empty producer snapshot.
* There is no `.kafka_cleanshutdown`. Checkpoints that were never written are there, with 0 bytes.
* Indexes of active segments have their full size, and are mostly holes.
* A second start fails at once: it reads the metadata log's index through a mapping, and the page
  that the hole needs does not fit ("a fault occurred in a recent unsafe memory access operation").
* Of two log directories the other one stays in service, and the process lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.dead_broker.disk import NoDiskError, free_bytes, small_disk
from tests.kafka.dead_broker.full_disk import (
    EXPIRING,
    TRANSACTIONS,
    USERS,
    Dead,
    Variant,
    filled,
    missing,
)
from tests.kafka.dead_broker.load import Load
from tests.kafka.dead_broker.sre import DONE, Answer, Run, by_script, follow, words
from tests.kafka.judge.broker import BrokerFailedError
from tests.session import verbs_use
from winnow.cli.main import run as run_command
from winnow.logdir.names import CLEAN_SHUTDOWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VARIANTS = {
    "delete": Variant([EXPIRING]),
    "delete, fresh recovery points": Variant([EXPIRING], fresh=True),
    "compacted": Variant([USERS]),
    "compacted, a little free": Variant([USERS], fresh=True, reserve_mib=3),
    "both, with open transactions": Variant([EXPIRING, USERS, *TRANSACTIONS]),
    "two log directories": Variant([EXPIRING, USERS], two_log_dirs=True),
}
TO_DO = {
    "delete": "an unclean shutdown without recovery points leaves nothing to do",
    "compacted": "there is no --scratch",
    "compacted, a little free": "64 MiB have to stay free",
    "both, with open transactions": "an unclean shutdown without recovery points leaves nothing to do",
    "two log directories": "an unclean shutdown without recovery points leaves nothing to do",
}
IN_CI = set(VARIANTS)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    try:
        with small_disk(tmp_path_factory.mktemp("disk") / "disk", mib=1):
            pass
    except NoDiskError as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    with Load() as clients:
        yield clients


@pytest.fixture
def in_process(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """The command's entry point, over a session that is there already."""
    verbs_use(spark, monkeypatch)

    def run(command: str) -> Answer:
        capsys.readouterr()
        code = run_command(words(command), program="./spark-submit.sh")
        said = capsys.readouterr()
        return Answer(command, code, said.err + said.out)

    return run


def _params() -> Iterator[object]:
    for name in VARIANTS:
        marks = []
        if name in TO_DO:
            marks.append(
                pytest.mark.xfail(
                    reason=TO_DO[name], strict=True, raises=(AssertionError, BrokerFailedError)
                )
            )
        if name not in IN_CI:
            marks.append(pytest.mark.slow)
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [*_params()])
def test_broker_starts_after_doctors_commands_and_loses_nothing(
    name: str, load: Load, in_process: Run, tmp_path: Path
) -> None:
    with filled(VARIANTS[name], tmp_path, load) as dead:
        _expect_the_broker_back(dead, load, in_process, tmp_path)


def test_same_by_the_script(load: Load, tmp_path: Path) -> None:
    """Every command goes to a shell, word for word."""
    with filled(VARIANTS["delete, fresh recovery points"], tmp_path, load) as dead:
        _expect_the_broker_back(dead, load, by_script(tmp_path / "state"), tmp_path)


def _expect_the_broker_back(dead: Dead, load: Load, run: Run, scratch: Path) -> None:
    full = dead.log_dirs[-1]
    assert not (full / CLEAN_SHUTDOWN).exists()
    before = free_bytes(full)
    answers = follow(dead, run)
    told = "\n".join(map(str, answers))
    assert len(answers) > 1, f"doctor names no command:\n{told}"
    assert {answer.code for answer in answers} <= set(DONE), told
    assert free_bytes(full) > before, f"nothing was freed:\n{told}"
    assert missing(dead, load, scratch)[:10] == [], told
