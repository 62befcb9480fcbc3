"""What a person sees, word for word: each verb on the bundled log directory, compared with golden/.

After an intended change, run `WINNOW_GOLDEN=write ./run-tests.sh tests/spark/test_golden.py` and
look at the diff.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.unchanged_log import INTERVAL, SEGMENT_BYTES, make_unchanged_log
from tests.fixtures.data import copy_file, copy_tree
from tests.session import verbs_use
from winnow.cli import demo
from winnow.cli.main import run as run_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parent / "golden"
WRITE = os.environ.get("WINNOW_GOLDEN") == "write"
GIVEN = ["--topic-configs", str(demo.DATA / "topic-configs.txt"), "--now", demo.NOW]
TOMBSTONES = ["--partition", "c-tomb-0"]

EVERYWHERE = (
    (re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{8}\b"), "RUN_ID"),
    (re.compile(r"\S+ \S+ free \(\d+ %\)"), "SIZE free (SHARE)"),
    # Blocks, which the file system rounds.
    (re.compile(r"^(  [a-z ]+?) +[\d.]+ \w+ +[\d,]+ inodes$", re.MULTILINE), r"\1  SIZE  INODES"),
    (re.compile(r"^  space: .*$", re.MULTILINE), "  space: SIZES"),
    # With manifests, which tell of inodes.
    (re.compile(r"purged: [\d.]+ \w+ freed"), "purged: SIZE freed"),
    (re.compile(r"(kept by run .* segments?), [\d.]+ \w+"), r"\1, SIZE"),
    (re.compile(r"[\d.]+ \w+ is kept and"), "SIZE is kept and"),
    (re.compile(r"^  [0-9a-f]{64}$", re.MULTILINE), "  HASH_KEY"),
)
OF_THIS_RUN = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(rf"{re.escape(getpass.getuser())}@{re.escape(socket.gethostname())}"), "USER@HOST"),
    (re.compile(rf"\b{re.escape(socket.gethostname())}:"), "HOST:"),
    (re.compile(r"\b[\d.]+ (ms|s|min)( ago)?\b"), r"DURATION\2"),
    (re.compile(r"  +"), "  "),
)
"""For what the machine's own clock, names and speed are in."""


class Golden:
    """The verbs on one copy of the bundled directory, one after the other."""

    def __init__(self, scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.scratch = scratch
        self.log_dir = demo.unpack()
        self._capsys = capsys

    def __call__(
        self, name: str, verb: str, *words: str, code: int = 0, of_this_run: bool = False
    ) -> str:
        """Runs a verb and compares what it says with golden/NAME.txt; what it said, as it was."""
        self._capsys.readouterr()
        assert run_command([verb, *words]) == code, self._capsys.readouterr().err
        out = self._capsys.readouterr().out
        told = out.replace(str(self.log_dir), "LOG_DIR").replace(str(self.scratch), "SCRATCH")
        told = told.replace(str(demo.DATA), "DEMO")
        for pattern, what in (*EVERYWHERE, *(OF_THIS_RUN if of_this_run else ())):
            told = pattern.sub(what, told)
        file = GOLDEN / f"{name}.txt"
        if WRITE:
            file.write_text(told, encoding="utf-8")
        assert told.splitlines() == file.read_text(encoding="utf-8").splitlines(), name
        return out


@pytest.fixture
def golden(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Golden:
    verbs_use(spark, monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return Golden(tmp_path, capsys)


def test_output_before_anything_is_changed(golden: Golden) -> None:
    log_dir = str(golden.log_dir)
    golden("plan", "plan", log_dir, *GIVEN)
    golden("doctor-all", "doctor", log_dir, *GIVEN, "--all")
    golden("doctor-deep", "doctor", log_dir, *GIVEN, "--deep", "--all")
    golden("explain", "explain", log_dir, *GIVEN, *TOMBSTONES)
    golden("explain-offset", "explain", log_dir, *GIVEN, *TOMBSTONES, "--offset", "17")
    golden("inspect", "inspect", f"{log_dir}/c-tomb-0")
    golden("inspect-timestamp", "inspect", f"{log_dir}/c-tomb-0", "--timestamp", "1790000000000")
    golden("verify", "verify", log_dir)
    log = max((golden.log_dir / "c-none-0").glob("*.log"), key=lambda path: path.stat().st_size)
    damaged = bytearray(log.read_bytes())
    damaged[100] ^= 1
    log.write_bytes(damaged)
    golden("verify-damaged", "verify", log_dir, "--topics", "c-none", code=4)


def test_one_page_of_doctor(golden: Golden) -> None:
    """On a path of a fixed length, for its commands may take several rows of a screen."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="w") as short:
        golden.scratch = Path(short)
        golden.log_dir = Path(short, "log-dir")
        copy_tree(demo.unpack(), golden.log_dir)
        copy_file(demo.DATA / "topic-configs.txt", Path(short, "topic-configs.txt"))
        given = ["--topic-configs", f"{short}/topic-configs.txt", "--now", demo.NOW]
        golden("doctor", "doctor", str(golden.log_dir), *given)


def test_output_of_changing_verbs_and_afterwards(golden: Golden) -> None:
    log_dir, ledger = str(golden.log_dir), str(golden.scratch / "ledger")
    out = golden(
        "clean", "clean", log_dir, *GIVEN, "--keep-replaced", "--ledger", ledger, "--report", "none"
    )
    assert "cleaned" in out
    golden("recover", "recover", log_dir, of_this_run=True)
    run_id = next(
        path.name.removeprefix(".winnow-kept-")
        for path in (golden.log_dir / "c-tomb-0").glob(".winnow-k*")
    )
    golden("recover-undo", "recover", log_dir, "--undo", run_id, "--dry-run", of_this_run=True)
    golden("recover-purge", "recover", log_dir, "--purge", "all")
    (golden.scratch / "keys").write_text("k0\nd1\nin no record\n", encoding="utf-8")
    keys = ["--keys", str(golden.scratch / "keys")]
    golden("erase", "erase", log_dir, *keys, "--ledger", ledger, code=3)
    golden("history", "history", "--ledger", ledger, of_this_run=True)


def test_output_of_a_compaction_that_leaves_segments_unchanged(golden: Golden) -> None:
    log_dir = make_unchanged_log(golden.scratch / "log-dir")
    settings = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": SEGMENT_BYTES,
        "index.interval.bytes": INTERVAL,
        "min.cleanable.dirty.ratio": 0,
    }
    given = [str(log_dir), "--now", demo.NOW]
    for key, value in settings.items():
        given += ["--topic-set", f"t:{key}={value}"]
    golden("plan-unchanged", "plan", *given, "--estimate")
    ledger = str(golden.scratch / "ledger")
    golden("clean-unchanged", "clean", *given, "--report", "none", "--ledger", ledger)
