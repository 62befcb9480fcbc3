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

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.disks import NoDiskError, free_bytes, small_disk
from tests.kafka.dead_broker.full_disk import (
    EXPIRING,
    TRANSACTIONS,
    USERS,
    Dead,
    Variant,
    filled,
    kill_in_recovery,
    missing,
)
from tests.kafka.dead_broker.load import Load
from tests.kafka.dead_broker.sre import DONE, Run, by_script, follow
from tests.kafka.judge.jars import PROJECT
from winnow.logdir.names import CLEAN_SHUTDOWN

pytestmark = pytest.mark.spark

VARIANTS = {
    "compacted": Variant([USERS]),
    "compacted, a little free": Variant([USERS], fresh=True, reserve_mib=3),
    "both, with open transactions": Variant([EXPIRING, USERS, *TRANSACTIONS]),
    "two log directories": Variant([EXPIRING, USERS], two_log_dirs=True),
    "delete, fresh recovery points": Variant([EXPIRING], fresh=True),
    "all, fresh recovery points": Variant([EXPIRING, USERS, *TRANSACTIONS], fresh=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_broker_starts_after_doctors_commands_and_loses_nothing(
    name: str, load: Load, in_process: Run, tmp_path: Path
) -> None:
    with filled(VARIANTS[name], tmp_path, load) as dead:
        if VARIANTS[name].two_log_dirs:
            assert [note for note in dead.notes if "the broker is running: " in note]
        _expect_the_broker_back(dead, load, in_process, tmp_path)


def test_commands_typed_into_a_shell_bring_the_broker_back(load: Load, tmp_path: Path) -> None:
    with filled(Variant([EXPIRING]), tmp_path, load) as dead:
        _expect_the_broker_back(dead, load, by_script(tmp_path / "state"), tmp_path)


@pytest.mark.slow
def test_broker_killed_in_its_own_recovery_starts_after_doctors_commands(
    load: Load, in_process: Run, tmp_path: Path
) -> None:
    """Somebody made a little room and started it again. It needs more when it is in service."""
    with filled(Variant([EXPIRING, USERS], reserve_mib=2), tmp_path, load) as dead:
        kill_in_recovery(dead)
        _expect_the_broker_back(dead, load, in_process, tmp_path)


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


def test_all_in_a_user_namespace(tmp_path: Path) -> None:
    """Where this user may not mount a file system, a user namespace may let him."""
    try:
        with small_disk(tmp_path / "disk", mib=1):
            pytest.skip("file systems can be mounted here: all tests above have run")
    except NoDiskError as error:
        why = str(error)
    unshare = shutil.which("unshare")
    namespace = [unshare or "unshare", "--user", "--map-root-user", "--mount"]
    (tmp_path / "mounted").mkdir()
    mount = [*namespace, "mount", "-t", "tmpfs", "none", str(tmp_path / "mounted")]
    if unshare is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip(f"no file system can be mounted here, and no user namespace helps: {why}")
    tests = [sys.executable, "-m", "pytest", "-q", str(Path(__file__).relative_to(PROJECT))]
    done = subprocess.run(
        [*namespace, *tests],
        cwd=PROJECT,
        env=os.environ | {"PYTEST_ADDOPTS": "-p no:cacheprovider"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout, done.stdout[-2000:]
