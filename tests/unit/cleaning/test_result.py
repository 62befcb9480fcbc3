"""The status and exit code of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from winnow.cleaning.result import ALL_CODES, COMPACTED, NONE, PartitionResult, RunResult

FINE = PartitionResult(
    topic="a",
    partition=0,
    log_dir="/d",
    policy="compact",
    actions=(COMPACTED,),
    rule="S3.4",
    reason="dirty",
)
IDLE = replace(FINE, actions=(NONE,))
LEFT = replace(
    FINE,
    topic="b",
    policy=None,
    actions=(NONE,),
    rule="S9.2",
    reason="unknown policy",
    left_alone=True,
)
FAILED = replace(FINE, topic="c", actions=(NONE,), rule="S8.8", reason="damaged", error="torn")
NO_SPACE = replace(FAILED, error="not enough space", error_code=6)
LEASE_LOST = replace(FAILED, error="the lease is lost", error_code=5)
NOT_VERIFIED = replace(FAILED, error="a wrong CRC", error_code=4)


@pytest.mark.parametrize(
    ("partitions", "status", "exit_code"),
    [
        ((), "done", 0),
        ((FINE, IDLE), "done", 0),
        ((FINE, LEFT), "partial", 3),
        ((FINE, FAILED), "partial", 3),
        ((LEFT,), "partial", 3),
        ((FAILED,), "partial", 3),
        ((LEFT, FAILED), "partial", 3),
        ((IDLE, NO_SPACE, NO_SPACE), "partial", 6),
        ((NOT_VERIFIED,), "partial", 4),
        ((NO_SPACE, NOT_VERIFIED), "partial", 3),
        ((NO_SPACE, LEFT), "partial", 3),
        ((FINE, NO_SPACE), "partial", 3),
        ((LEASE_LOST,), "partial", 5),
        ((FINE, LEFT, FAILED, LEASE_LOST), "partial", 5),
    ],
)
def test_exit_code_names_the_cause_if_there_is_only_one(
    partitions: tuple[PartitionResult, ...], status: str, exit_code: int
) -> None:
    result = RunResult(run_id="r", verb="clean", now=0, partitions=partitions)
    assert (result.status, result.exit_code) == (status, exit_code)


@pytest.mark.parametrize(("short", "exit_code"), [(None, 0), (0, 0), (1, 6)])
def test_freeing_less_than_asked_is_partial(short: int | None, exit_code: int) -> None:
    result = RunResult(run_id="r", verb="clean", now=0, partitions=(FINE, IDLE), short_bytes=short)
    assert (result.status, result.exit_code) == ("partial" if exit_code else "done", exit_code)


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (FINE, None),
        (IDLE, None),
        (LEFT, "settings-unknown"),
        (replace(LEFT, rule="S3.4"), "left-alone"),
        (FAILED, "damaged"),
        (replace(FAILED, left_alone=True), "unreadable"),
        (replace(FAILED, left_alone=True, error=None), "not-done"),
        (replace(NO_SPACE, left_alone=True), "no-space"),
        (replace(NOT_VERIFIED, left_alone=True), "verification-failed"),
        (replace(FAILED, error_code=99), "failed"),
        (replace(FINE, rule="S6.2", left_alone=True), "not-done"),
        (replace(FINE, quarantined_bytes=1), "quarantined"),
    ],
)
def test_code_says_why_a_partition_was_left_alone(
    partition: PartitionResult, code: str | None
) -> None:
    assert partition.code == code
    assert code is None or code in ALL_CODES
