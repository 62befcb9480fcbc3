"""Results as a run would produce them, for tests of the output."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

from winnow.cleaning.result import COMPACTED, NONE, PartitionResult, RunResult
from winnow.cli.out import Line, as_json, tell_page
from winnow.policy.versions import asked_version

NOW = 1_795_300_000_000


def partition(topic: str, number: int = 0, **changes: Any) -> PartitionResult:
    """Return a result compacted from 2 MiB to 1 MiB, with changes applied."""
    values: dict[str, Any] = {
        "topic": topic,
        "partition": number,
        "log_dir": "/kafka",
        "policy": "compact",
        "actions": (COMPACTED,),
        "rule": "S3.4",
        "reason": "dirty ratio 0.75 is above min.cleanable.dirty.ratio 0.5",
        "dirty_ratio": 0.75,
        "segments_before": 12,
        "segments_after": 3,
        "bytes_before": 2 << 20,
        "bytes_after": 1 << 20,
    }
    return PartitionResult(**{**values, **changes})


def idle(topic: str, number: int = 0) -> PartitionResult:
    return partition(
        topic,
        number,
        actions=(NONE,),
        reason="dirty ratio 0.1 is not above 0.5",
        dirty_ratio=0.1,
        segments_after=12,
        bytes_after=2 << 20,
    )


def left_alone(topic: str, number: int = 0, *, error: str | None = None) -> PartitionResult:
    return partition(
        topic,
        number,
        actions=(NONE,),
        reason="holds transactional batches",
        segments_after=12,
        bytes_after=2 << 20,
        left_alone=True,
        error=error,
    )


def run_of(*partitions: PartitionResult, verb: str = "clean") -> RunResult:
    return RunResult(
        run_id="20261121T000000Z-0",
        verb=verb,
        now=NOW,
        partitions=partitions,
        kafka=asked_version("4.4"),
    )


def printed(lines: Iterable[Line], width: int = 100) -> str:
    """What a person sees in this many columns."""
    with (
        redirect_stdout(io.StringIO()) as out,
        patch.dict(os.environ, COLUMNS=str(width)),
    ):
        tell_page(lines)
    return out.getvalue()


def in_json(value: dict[str, Any]) -> Any:
    """What a program reads."""
    return json.loads(as_json(value))
