"""`verify` over whole log directories finds what a check of each partition alone finds, and changes
nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import add_partition, changes, clean, files_of, new_log_dir, run
from tests.unit.cleaning.sweeps import swept
from winnow.api import verify
from winnow.cli.main import run as run_command
from winnow.errors import LogDirInUseError
from winnow.logdir.lock import lock_log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_all_faults_are_listed_in_file_order_and_nothing_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir, sound = copy_log_dir("damaged", tmp_path / "damaged"), new_log_dir(tmp_path / "sound")
    add_partition(sound, "c-zstd-0", "c-zstd-0")
    before = [files_of(path) for path in (log_dir, sound)]
    result = verify(spark, [str(log_dir), str(sound)])
    alone = [swept(path) for path in (log_dir, sound)]
    assert list(result.findings) == alone[0][0] != []
    assert result.checked == alone[0][1] + alone[1][1]
    assert (result.status, result.exit_code) == ("damaged", 4)
    assert [
        changes(was, files_of(path)) for was, path in zip(before, (log_dir, sound), strict=True)
    ] == [[], []]


def test_cleaned_log_directory_has_no_faults(spark: SparkSession, log_dir: Path) -> None:
    before = swept(log_dir)[1]
    assert run(clean, spark, log_dir).exit_code == 0
    result = verify(spark, [str(log_dir)])
    assert result.findings == ()
    assert 0 < result.checked.records < before.records


def test_verify_command(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only for the requested topics, here."""
    log_dir = copy_log_dir("damaged", tmp_path / "log-dir", only=["x-badcrc-0", "x-torn-0"])
    (log_dir / "x-0.0123456789abcdef0123456789abcdef-stray").mkdir()
    verbs_use(spark, monkeypatch)
    assert run_command(["verify", str(log_dir), "--topics", "x-bad*", "--json"]) == 4
    out, err = capsys.readouterr()
    assert [finding["kind"] for finding in json.loads(out)["findings"]] == ["crc"]
    assert "stray is not checked" in err
    assert run_command(["verify", str(log_dir), "--topics", "none"]) == 2
    assert "--topics matches no topic" in capsys.readouterr().err
    assert run_command(["verify", str(tmp_path)]) == 2


def test_log_directory_in_use_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    with lock_log_dir(str(log_dir)), pytest.raises(LogDirInUseError):
        verify(spark, [str(log_dir)])
