"""Offset checkpoints that are above what can be read of a log. A recovery never makes a log longer,
so they are wrong after an unclean shutdown, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.damage import Log
from tests.spark.runs import add_partition, new_log_dir, set_checkpoint
from tests.unit.cleaning.sweeps import findings
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)

NAME = "c-4p-1"
LIMITS = (LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    home = new_log_dir(tmp_path / "log-dir")
    add_partition(home, NAME, NAME)
    return home


def end_offset(log_dir: Path) -> int:
    return int(Log(log_dir / NAME, -1).rows["last_offset"][-1]) + 1


def kinds(log_dir: Path) -> list[str]:
    return [found.kind.value for found in findings(log_dir)]


@pytest.mark.parametrize("clean", ["clean", ""])
@pytest.mark.parametrize("name", LIMITS)
def test_offset_above_the_end_is_reported(log_dir: Path, name: str, clean: str) -> None:
    end = end_offset(log_dir)
    if not clean:
        (log_dir / CLEAN_SHUTDOWN).unlink()
    set_checkpoint(log_dir / name, NAME, end)
    assert findings(log_dir) == []
    set_checkpoint(log_dir / name, NAME, end + 50)
    [found] = findings(log_dir)
    assert (found.kind, found.first_offset, found.last_offset) == ("checkpoint", end, end + 49)
    assert f"reach offset {end + 50}, which is in {name}" in found.message
    assert "A copy that was made while a broker wrote looks like this, too" in found.meaning


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (LOG_START_CHECKPOINT, ["torn-tail", "checkpoint"]),
        (RECOVERY_POINT_CHECKPOINT, ["torn-tail", "checkpoint"]),
        # The recovery cuts it off, and that is what the torn tail says.
        (HIGH_WATERMARK_CHECKPOINT, ["torn-tail"]),
    ],
)
@pytest.mark.parametrize("what", ["torn", "wrong crc"])
def test_high_watermark_in_a_torn_tail_is_no_finding(
    log_dir: Path, name: str, expected: list[str], what: str
) -> None:
    end, log = end_offset(log_dir), Log(log_dir / NAME, -1)
    if what == "torn":
        del log.data[-5:]
    else:
        log.data[-1] ^= 1
    log.write()
    (log_dir / CLEAN_SHUTDOWN).unlink()
    for limit in LIMITS:
        set_checkpoint(log_dir / limit, NAME, 0)
    assert kinds(log_dir) == ["torn-tail"]
    set_checkpoint(log_dir / name, NAME, end)
    assert kinds(log_dir) == expected
