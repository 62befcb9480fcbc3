"""Status and exit code of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from winnow.engine.result import COMPACTED, NONE, PartitionResult, RunResult

FINE = PartitionResult(topic="a", partition=0, log_dir="/d", policy="compact", actions=(COMPACTED,), reason="dirty")
LEFT = PartitionResult(
    topic="b", partition=0, log_dir="/d", policy=None, actions=(NONE,), reason="unknown policy", left_alone=True
)
FAILED = PartitionResult(
    topic="c", partition=0, log_dir="/d", policy="compact", actions=(NONE,), reason="damaged", error="torn"
)
NO_ROOM = replace(FAILED, error="not enough space", error_code=6)
UNVERIFIED = replace(FAILED, error="wrong CRC in a staged segment", error_code=4)


@pytest.mark.parametrize(
    ("partitions", "status", "exit_code"),
    [
        ((), "done", 0),
        ((FINE,), "done", 0),
        ((FINE, LEFT), "partial", 3),
        ((FINE, FAILED), "partial", 3),
        ((LEFT,), "partial", 3),
        ((FAILED,), "partial", 3),
        ((LEFT, FAILED), "partial", 3),
        ((NO_ROOM, NO_ROOM), "partial", 6),
        ((NO_ROOM, FINE), "partial", 3),
        ((NO_ROOM, FAILED), "partial", 3),
        ((UNVERIFIED,), "partial", 4),
    ],
)
def test_the_status_says_whether_all_some_or_nothing_could_be_done(
    partitions: tuple[PartitionResult, ...], status: str, exit_code: int
) -> None:
    result = RunResult(run_id="r", verb="clean", now=0, partitions=partitions)
    assert (result.status, result.exit_code) == (status, exit_code)
