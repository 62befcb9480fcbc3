"""The `.log` of some segments is lost, and their indexes are still there: no verb changes the
partition, and each says what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.starts.bases import copy_base
from tests.session import verbs_use
from tests.spark.runs import NOW, add_partition, changes, files_of, new_log_dir
from winnow.cli.main import run as run_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Command = Callable[..., tuple[int, str]]
POLICY = (
    "--topic-set",
    "*:cleanup.policy=compact",
    "--topic-set",
    "*:internal.segment.bytes=65536",
)
SETTINGS = (*POLICY, "--now", str(NOW))
MISSING = {"all": slice(None), "middle": slice(1, 2), "active": slice(-1, None)}


@pytest.fixture
def command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    verbs_use(spark, monkeypatch)

    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command(list(words))
        out, err = capsys.readouterr()
        return code, re.sub(r"\s+", " ", out + err)

    return call


@pytest.fixture(params=MISSING)
def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    log_dir = new_log_dir(tmp_path / "log-dir")
    for name in ("lost-0", "sound-0"):
        add_partition(log_dir, name, "c-4p-1")
    logs = sorted((log_dir / "lost-0").glob("*.log"))
    assert len(logs) > 3
    for log in logs[MISSING[request.param]]:
        log.unlink()
    return log_dir


def changed(log_dir: Path, before: dict[str, object]) -> list[str]:
    return [name for name in changes(before, files_of(log_dir)) if name.startswith("lost-0/")]


def test_verbs_say_what_is_lost_and_leave_the_partition_alone(
    command: Command, log_dir: Path
) -> None:
    before = files_of(log_dir)
    path = str(log_dir)
    for verb, expected in (("plan", 3), ("doctor", 3), ("clean", 3)):
        report = ("--report", "none", "--no-ledger") if verb == "clean" else ()
        code, said = command(verb, path, *SETTINGS, *report)
        assert code == expected, said
        assert "missing" in said
        assert "an interrupted run left" not in said
        assert "leftovers" not in said
        assert "lost-0 compacted" not in said
    code, said = command("verify", path)
    assert code == 4
    assert "missing lost-0/0" in said
    assert "repaired by a broker" not in said
    code, said = command("recover", path)
    assert code == 3
    assert "are lost" in said
    assert changed(log_dir, before) == []
    assert any(name.startswith("sound-0/") for name in changes(before, files_of(log_dir)))


@pytest.mark.parametrize("place", [1, -1], ids=["middle", "active"])
def test_every_verb_reports_a_segment_of_which_only_the_producer_snapshot_is_left(
    command: Command, tmp_path: Path, place: int
) -> None:
    copy_base("4.3.1", "alone", tmp_path / "root")
    log_dir = tmp_path / "root" / "a"
    lost = sorted((log_dir / "d-0").glob("*.log"))[place].stem
    for suffix in (".log", ".index", ".timeindex"):
        (log_dir / "d-0" / f"{lost}{suffix}").unlink()
    for name in ("recovery-point", "replication"):
        checkpoint = log_dir / f"{name}-offset-checkpoint"
        lines = [one for one in checkpoint.read_text().splitlines()[2:] if one[:4] != "d 0 "]
        checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    what = "offsets 40 to 79 are lost" if place == 1 else "below its newest producer snapshot 150"
    before = files_of(log_dir)
    for verb, expected in (("plan", 3), ("doctor", 3), ("clean", 3), ("verify", 4), ("recover", 3)):
        report = ("--report", "none", "--no-ledger") if verb == "clean" else ()
        code, said = command(verb, str(log_dir), *report)
        assert code == expected, said
        assert what in said
    assert not [name for name in changes(before, files_of(log_dir)) if name.startswith("d-0/")]


def test_end_that_only_a_checkpoint_shows_is_said_by_every_verb(
    command: Command, tmp_path: Path
) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    for name in ("lost-0", "sound-0"):
        add_partition(log_dir, name, "c-4p-1")
    last = max((log_dir / "lost-0").glob("*.log"))
    for path in (log_dir / "lost-0").glob(f"{last.stem}.*"):
        path.unlink()
    before = files_of(log_dir)
    for verb in ("plan", "doctor", "clean"):
        report = ("--report", "none", "--no-ledger") if verb == "clean" else ()
        code, said = command(verb, str(log_dir), *SETTINGS, *report)
        assert code == 3, said
        assert f"it ends at offset {int(last.stem)}, below its high watermark" in said
    code, said = command("verify", str(log_dir))
    assert code == 4
    assert "expected the log to reach offset" in said
    assert changed(log_dir, before) == []
    assert any(name.startswith("sound-0/") for name in changes(before, files_of(log_dir)))


def test_recovery_after_a_crash_cuts_nothing_there_and_writes_no_marker(
    command: Command, log_dir: Path
) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    before = files_of(log_dir)
    for truncate in ((), ("--truncate", "--discard-cut")):
        code, said = command("recover", str(log_dir), *truncate, *SETTINGS)
        assert code == 3, said
        assert "are lost" in said
    assert changed(log_dir, before) == []
    assert not (log_dir / ".kafka_cleanshutdown").exists()


def test_erasure_does_not_touch_it_and_is_not_complete(
    command: Command, log_dir: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("k1\n")
    before = files_of(log_dir)
    code, said = command(
        *("erase", str(log_dir), "--topics", "lost", "--keys", str(keys), "--no-ledger"), *POLICY
    )
    assert code == 3, said
    assert "missing" in said
    assert changed(log_dir, before) == []
