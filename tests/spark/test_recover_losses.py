"""Whole batches lie behind damage that a recovery would meet: `doctor`, `verify` and `recover` say
the same about what it deletes, and nothing is deleted unasked.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import NOW, changes, files_of
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.cli.main import run as run_command
from winnow.logdir.batches import read_batches
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOG = "d-size-0"
KNOWN = ["--set", "log.cleanup.policy=delete", "--set", "log.retention.ms=-1"]
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    verbs_use(spark, monkeypatch)

    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command([*words, "--now", str(NOW)] if words[0] != "verify" else [*words])
        said = capsys.readouterr()
        return code, " ".join(said.out.split())

    return call


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two logs after a crash, without a recovery point."""
    path = copy_log_dir("clean", tmp_path / "kafka", only=[METADATA_DIR, LOG, "c-tomb-0"])
    remove_other_topics(path)
    (path / CLEAN_SHUTDOWN).unlink()
    (path / RECOVERY_POINT_CHECKPOINT).unlink()
    return path


def amounts(log: Path) -> list[tuple[int, int]]:
    """Return position and records of each batch of a sound log."""
    pieces = read_batches(Places(), str(log), size=log.stat().st_size)
    return [
        (piece.position(i), int(piece.rows["record_count"][i]))
        for piece in pieces
        for i in range(len(piece.rows))
    ]


def flip(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 1
    log.write_bytes(data)


def damage(log_dir: Path, *, segment: int) -> str:
    """Damage the first batch of a segment. Return what goes with it."""
    logs = sorted((log_dir / LOG).glob("*.log"))[segment:]
    whole = [batch for log in logs for batch in amounts(log)][1:]
    assert whole
    flip(logs[0], 70)
    many = "1 whole batch" if len(whole) == 1 else f"{len(whole):,} whole batches"
    return f"{sum(records for _, records in whole):,} records in {many}, "


@pytest.mark.parametrize("segment", [1, -1])
def test_truncate_skips_logs_with_batches_after_damage_and_doctor_warns(
    command: Command, log_dir: Path, segment: int
) -> None:
    amount = damage(log_dir, segment=segment)
    before = files_of(log_dir / LOG)
    _, page = command("doctor", str(log_dir), *KNOWN, "--all")
    assert amount in page
    assert "optional" not in page
    assert f"leaves {log_dir}/{LOG} alone" in page
    assert "Do not start the broker" in page
    code, page = command("verify", str(log_dir))
    assert (code, amount in page) == (4, True)
    code, page = command("recover", str(log_dir), *KNOWN)
    assert (code, amount in page) == (3, True)
    assert changes(before, files_of(log_dir / LOG)) == []
    for discard in ((), ("--discard-cut",)):
        code, page = command("recover", str(log_dir), "--truncate", *discard, *KNOWN)
        assert (code, amount in page) == (3, True)
        assert "first copy the directory of the partition elsewhere" in page
        assert changes(before, files_of(log_dir / LOG)) == []
        assert not (log_dir / CLEAN_SHUTDOWN).exists()


def test_lose_records_deletes_the_announced_batches_into_quarantine(
    command: Command, log_dir: Path
) -> None:
    damage(log_dir, segment=-2)
    last = max((log_dir / LOG).glob("*.log"))
    gone = last.read_bytes()
    code, page = command("recover", str(log_dir), "--truncate", "--lose-records", *KNOWN)
    assert (code, "starts at once" in page) == (0, True)
    assert (log_dir / CLEAN_SHUTDOWN).exists()
    [kept] = (log_dir / LOG).glob(f".winnow-quarantine-*/{last.name}")
    assert kept.read_bytes() == gone
    assert not last.exists()


def test_torn_end_is_cut_without_lose_records(command: Command, log_dir: Path) -> None:
    last = max((log_dir / LOG).glob("*.log"))
    with last.open("ab") as file:
        file.write(last.read_bytes()[:100])
    _, page = command("doctor", str(log_dir), *KNOWN, "--all")
    assert "optional: recovers the logs here and now" in page
    code, page = command("recover", str(log_dir), "--truncate", *KNOWN)
    assert (code, "starts at once" in page) == (0, True)


def test_doctor_offers_no_recovery_that_would_write_no_marker(
    command: Command, log_dir: Path
) -> None:
    (log_dir / "orders-0.bak").mkdir()
    code, page = command("doctor", str(log_dir), *KNOWN, "--all")
    assert (code, "optional: recovers" in page, "recover --truncate" in page) == (3, False, False)


def test_log_start_above_the_end_is_no_reason_to_delete_the_log(
    command: Command, log_dir: Path
) -> None:
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nd-size 0 99999999\n")
    before = files_of(log_dir / LOG)
    code, page = command("recover", str(log_dir), "--truncate", "--json", *KNOWN)
    [found] = [
        log for log in json.loads(page)["unclean"][0]["partitions"] if log["directory"] == LOG
    ]
    assert code == 3
    assert "all is deleted" in found["error"]
    assert changes(before, files_of(log_dir / LOG)) == []


def test_lose_records_requires_truncate(command: Command, log_dir: Path) -> None:
    assert command("recover", str(log_dir), "--lose-records", *KNOWN)[0] == 2


def test_printed_recovery_lacks_lose_records(command: Command, log_dir: Path) -> None:
    damage(log_dir, segment=1)
    _, page = command("doctor", str(log_dir), "--json", *KNOWN)
    commands = [one["command"] for one in json.loads(page)["advice"]]
    assert any(one[1] == "recover" and "--truncate" in one for one in commands)
    assert "--lose-records" not in shlex.join(word for one in commands for word in one)
