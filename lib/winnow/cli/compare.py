"""`verify --compare`: show a comparison of replicas as a table or as one JSON object."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from winnow.cli.out import Paper, tell, tell_json
from winnow.cli.reading import read_and_tell
from winnow.runtime.progress import Progress
from winnow.runtime.session import WithContext

if TYPE_CHECKING:
    from winnow.verbs.compare.values import CompareResult, Comparison


def run_compare(
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str],
    quiet: bool,
    json: bool,
    profile: bool = False,
) -> int:
    """Run the comparison and return the exit code. Errors are printed, not raised."""

    def read(spark: WithContext, progress: Progress) -> CompareResult:
        from winnow import api  # noqa: PLC0415 - it loads numba

        return api.compare_replicas(spark, log_dirs, topics=topics, progress=progress)

    def told(result: CompareResult, more: Mapping[str, Any]) -> None:
        tell_comparison(result, json=json, more=more)

    return read_and_tell(log_dirs, read, told, quiet=quiet, json=json, profile=profile)


def tell_comparison(result: CompareResult, *, json: bool, more: Mapping[str, Any]) -> None:
    from winnow.cli.text.compare import show  # noqa: PLC0415 - it loads numba

    if json:
        tell_json(to_json(result, more))
    else:
        tell(lambda: show(result, Paper()))


def to_json(result: CompareResult, more: Mapping[str, Any]) -> str:
    """Return the JSON object. Scripts depend on its keys: do not add, remove or rename any.

    `more` holds keys that only an option adds.
    """
    whole = {
        "status": result.status,
        "partitions": [_partition(one) for one in result.comparisons],
        "notes": result.notes,
        **more,
    }
    return json_format.dumps(whole, indent=2)


def _partition(one: Comparison) -> dict[str, Any]:
    first = None if one.first is None else {**asdict(one.first), "meaning": one.first.kind.meaning}
    return {**asdict(one), "first": first}
