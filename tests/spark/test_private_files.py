"""What runs make holds names of topics, groups and users. Only its owner can read it, whatever the
umask; and files beside Kafka's own have Kafka's modes, whatever the umask. docs/safety.md has the
table.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.lock_holder import broker
from tests.session import verbs_use
from tests.spark.damage import flipped_bit
from tests.spark.runs import NOW
from winnow.cli.main import run
from winnow.logdir.names import CLEAN_SHUTDOWN, PREPARED
from winnow.storage.private import let_others_not_write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OPEN = {"w.prom": 0o644}
"""Made for other programs. The umask applies."""
KAFKAS = (0o750, 0o640)
"""Modes of the directories and of the files of the broker."""


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def everything(place: Path) -> Iterator[tuple[Path, int]]:
    """Yield all that is below it, with its mode."""
    for parent, directories, files in os.walk(place):
        for name in (*directories, *files):
            path = Path(parent, name)
            yield path, path.lstat().st_mode


def reachable(place: Path) -> dict[str, int]:
    """Return what others can open, by path, with its mode: no directory above keeps them out."""
    found, closed = {}, set()
    for path, mode in everything(place):
        bits = stat.S_IMODE(mode)
        if path.parent in closed or not bits & 0o077:
            closed.add(path)
        else:
            found[str(path.relative_to(place))] = bits
    return found


def copied(logs: Path) -> None:
    """Copy two partitions into a log directory with the modes of a broker."""
    copy_log_dir("clean", logs, only=["c-tomb-0", "d-size-0"])
    for path, mode in [(logs, stat.S_IFDIR), *everything(logs)]:
        path.chmod(KAFKAS[0] if stat.S_ISDIR(mode) else KAFKAS[1])


def test_only_the_user_can_read_what_runs_make(
    umask: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs_use(spark, monkeypatch)
    logs, copy, made = tmp_path / "logs", tmp_path / "copy", tmp_path / "made"
    made.mkdir(0o755)
    made.chmod(0o755)
    copied(logs)
    monkeypatch.setenv("XDG_STATE_HOME", str(made / "home" / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(made / "home" / "cache"))
    monkeypatch.delenv("WINNOW_LEDGER", raising=False)
    monkeypatch.chdir(made)
    let_others_not_write()  # as the program does when it starts
    log, given = str(logs), ("--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW))
    files = ("--result", "r.json", "--log-file", "log.txt")
    codes = [
        run(["plan", log, *given, *files, "--out", "plan.json"]),
        # With key summaries, which are beside the ledger, and made first.
        run(["clean", log, *given, *files, "--ledger", str(made / "new" / "ledger"),
             "--keep-replaced", "--metrics", "w.prom", "--openlineage", "events.jsonl"]),
        run(["clean", log, *given, "--no-ledger", "--report", "r.html",
             "--output", str(copy)]),
        # Into the user's own ledger.
        run(["erase", log, "--key", "k17", "--certificate", "deep/certificates"]),
    ]  # fmt: skip
    assert set(codes) <= {0, 3, 4}, codes
    names = {path.name for path, _ in everything(made)}
    assert {"r.html", "r.json", "plan.json", "log.txt", "events.jsonl", "partitions-v1"} <= names
    assert {"erasures-v1", "key-summaries", "reports", "certificates", "_delta_log"} <= names
    assert any(name.endswith(".hash-key") for name in names)
    assert reachable(made) == {
        name: mode & ~umask for name, mode in OPEN.items() if mode & ~umask & 0o077
    }
    assert any(".winnow-kept-" in str(path) for path, _ in everything(logs)), "it keeps an undo"
    for path, mode in (*everything(logs), *everything(copy)):
        bits = stat.S_IMODE(mode)
        if stat.S_ISDIR(mode):
            assert bits == KAFKAS[0], path
        else:
            assert bits in {KAFKAS[1], 0o600}, (path, oct(bits))


@pytest.mark.usefixtures("umask")
def test_no_more_users_can_read_what_is_kept_or_staged_beside_a_log_than_the_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged batches in quarantine, torn ends that a recovery cut off, and preparations."""
    verbs_use(spark, monkeypatch)
    monkeypatch.setenv("WINNOW_LEDGER", str(tmp_path / "ledger"))
    let_others_not_write()
    damaged, crashed, staged = (tmp_path / name for name in ("damaged", "crashed", "staged"))
    for logs in (damaged, crashed, staged):
        copied(logs)
    flipped_bit(damaged / "c-tomb-0")
    (crashed / CLEAN_SHUTDOWN).unlink()
    (crashed / "recovery-point-offset-checkpoint").write_bytes(b"")
    with max((crashed / "d-size-0").glob("*.log")).open("ab") as file:
        file.write(bytes(range(100)))
    given = ("--topic-configs", str(TOPIC_CONFIGS), "--profile")
    quarantine = ("--on-corrupt", "quarantine", "--now", str(NOW))
    assert run(["clean", str(damaged), *given, *quarantine]) == 3
    assert run(["recover", str(crashed), "--truncate"]) in {0, 3}
    (staged / ".lock").touch(KAFKAS[1])  # the broker's
    (staged / ".lock").chmod(KAFKAS[1])
    with broker(staged):
        assert run(["prepare", str(staged), *given]) == 0
    names = {str(path) for path, _ in everything(tmp_path)}
    for place in (damaged, crashed):
        assert any(f"{place}/" in name and "-quarantine" in name for name in names), place
    assert any(name.endswith(f"/{PREPARED}") for name in names)
    for logs in (damaged, crashed, staged):
        for path, mode in everything(logs):
            wider = stat.S_IMODE(mode) & ~(KAFKAS[0] if stat.S_ISDIR(mode) else KAFKAS[1])
            assert wider == 0, (path, oct(mode))
    private = [(path, mode) for path, mode in everything(staged) if ".winnow-" in path.name]
    assert [path for path, mode in private if stat.S_IMODE(mode) != stat.S_IRWXU] == []
    assert run(["commit", str(staged)]) == 0
    assert [path for path, _ in everything(staged) if ".winnow-" in path.name] == []
    for path, mode in everything(staged):
        bits = stat.S_IMODE(mode)
        assert bits == KAFKAS[0] if stat.S_ISDIR(mode) else bits in {KAFKAS[1], 0o600}, path
