"""A run as the broker's own user: it does what a broker of that user could do, and finds what it
can't do before it renames anything (S8.5).
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import changes, files_of

KAFKA, FOREIGN = pwd.getpwnam("nobody").pw_uid, 0
"""A user that every machine has, since Java wants one with a name; and the group of root."""
ROOT = Path(__file__).resolve().parents[2]
SOME = ("c-tomb-0", "d-size-0", "t-closed-0")
CHECKPOINT = "cleaner-offset-checkpoint"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of another user"),
]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A directory that the user can reach; pytest's own are private to root."""
    path = Path(tempfile.mkdtemp(prefix="winnow-user-"))
    numba = os.environ.get("NUMBA_CACHE_DIR")
    if numba is not None and Path(numba).is_dir():
        shutil.copytree(numba, path / "numba")
    for one in [path, *path.rglob("*")]:
        os.chown(one, KAFKA, KAFKA)
    yield path
    shutil.rmtree(path)


def give(path: Path, user: int, group: int) -> None:
    for one in [path, *path.rglob("*")]:
        os.chown(one, user, group)


def log_dir_of_kafka(home: Path, name: str) -> Path:
    path = copy_log_dir("clean", home / name, only=SOME)
    give(path, KAFKA, FOREIGN)
    (path / ".lock").unlink(missing_ok=True)
    for one in path.rglob("*.log"):
        one.chmod(0o640)
    return path


def log_dir_of_kafka_as_it_is(_path: Path) -> None:
    """Change nothing."""


def unwritable(path: Path) -> None:
    (path / "c-tomb-0").chmod(0o550)


def of_another_user(path: Path) -> None:
    give(path / "c-tomb-0", 4321, 4321)
    (path / "c-tomb-0").chmod(0o777)
    for one in (path / "c-tomb-0").iterdir():
        one.chmod(0o644)


def read_only_files(path: Path) -> None:
    for one in (path / "c-tomb-0").iterdir():
        one.chmod(0o440)


def checkpoint_of_root(path: Path) -> None:
    """As left by somebody who edited it as root. A broker replaces it."""
    (path / CHECKPOINT).write_text("0\n0\n")
    (path / CHECKPOINT).chmod(0o644)
    os.chown(path / CHECKPOINT, 0, 0)


def log_dir_of_root(path: Path) -> None:
    """The log directory is writable, but nothing in it can be replaced as a broker would."""
    checkpoint_of_root(path)
    os.chown(path, 0, KAFKA)
    path.chmod(0o775)


CASES: dict[str, Callable[[Path], None]] = {
    "foreign group": log_dir_of_kafka_as_it_is,
    "unwritable": unwritable,
    "other user": of_another_user,
    "read-only files": read_only_files,
    "checkpoint of root": checkpoint_of_root,
    "log directory of root": log_dir_of_root,
}


@pytest.fixture(scope="module")
def ran(home: Path) -> dict[str, tuple[Path, dict[str, Any], list[str]]]:
    """By case: the log directory, what the run returned, and the names that changed."""
    made = {name: log_dir_of_kafka(home, name.replace(" ", "-")) for name in CASES}
    for name, prepare in CASES.items():
        prepare(made[name])
    before = {name: files_of(path) for name, path in made.items()}
    killed = log_dir_of_kafka(home, "crashed")
    *told, crashed = as_kafka(home, *map(str, [*made.values(), killed]))
    return {"crashed": (killed, crashed, [])} | {
        name: (path, result, changes(before[name], files_of(path)))
        for (name, path), result in zip(made.items(), told, strict=True)
    }


def as_kafka(home: Path, *words: str) -> list[dict[str, Any]]:
    """Run `tests.spark.as_user` as the user KAFKA, who is in no other group. It may read
    everything: Python and the tests may lie in a home that only root can read.
    """
    user = [f"--reuid={KAFKA}", f"--regid={KAFKA}", "--clear-groups"]
    read = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    done = subprocess.run(
        ["setpriv", *user, *read, sys.executable, "-m", "tests.spark.as_user", *words],
        cwd=ROOT,
        env=os.environ
        | {
            "HOME": str(home),
            "SPARK_SUBMIT_OPTS": f"-Duser.home={home} {os.environ.get('SPARK_SUBMIT_OPTS', '')}",
            "TMPDIR": str(home),
            "XDG_STATE_HOME": str(home),
            "NUMBA_CACHE_DIR": str(home / "numba"),
            "PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}",
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


Ran = dict[str, tuple[Path, dict[str, Any], list[str]]]


def actions(result: dict[str, Any]) -> dict[str, list[str]]:
    return {name: p["actions"] for name, p in result["partitions"].items()}


def test_files_of_a_foreign_group_are_replaced_as_a_broker_would(ran: Ran) -> None:
    path, result, changed = ran["foreign group"]
    assert result["exit_code"] == 0, result
    assert actions(result)["c-tomb-0"] == ["compacted"]
    assert CHECKPOINT in changed
    new = [path / name for name in changed if (path / name).is_file()]
    assert {one.stat().st_uid for one in new} == {KAFKA}
    assert {stat.S_IMODE(one.stat().st_mode) for one in new if one.suffix == ".log"} == {0o600}


@pytest.mark.parametrize("name", ["read-only files", "checkpoint of root"])
def test_what_a_broker_could_replace_is_replaced(ran: Ran, name: str) -> None:
    path, result, _ = ran[name]
    assert result["exit_code"] == 0, result
    assert actions(result)["c-tomb-0"] == ["compacted"]
    assert (path / CHECKPOINT).stat().st_uid == KAFKA


@pytest.mark.parametrize(
    ("name", "words"),
    [("unwritable", "may not write to"), ("other user", "belongs to user 4321")],
)
def test_partition_that_cannot_be_replaced_is_untouched(ran: Ran, name: str, words: str) -> None:
    _, result, changed = ran[name]
    assert result["exit_code"] == 3
    assert words in result["partitions"]["c-tomb-0"]["reason"]
    assert [one for one in changed if one.startswith("c-tomb-0")] == []
    assert actions(result)["t-closed-0"] == ["compacted"]


def test_checkpoint_that_cannot_be_replaced_is_found_before_any_change(ran: Ran) -> None:
    _, result, changed = ran["log directory of root"]
    assert changed == []
    assert CHECKPOINT in result["partitions"]["c-tomb-0"]["reason"]
    assert "belongs to user root" in result["partitions"]["c-tomb-0"]["reason"]


def test_next_run_of_the_same_user_ends_as_without_the_kill(ran: Ran) -> None:
    _, told, _ = ran["crashed"]
    assert told["tried"] >= 8
    assert told["different"] == []
