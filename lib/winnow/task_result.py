"""What the task of a scheduler makes of the JSON object of a run. Needs only Python's own library:
the scheduler's environment has none of Winnow's dependencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SUCCESS = (0, 3)
"""Exit codes of a run that did all that can be done. With 3, partitions were left alone, each with
a reason. A healthy broker has such partitions every night.
"""
_MOST_LINES = 20
_SUMS = (
    "segments_before",
    "segments_after",
    "bytes_before",
    "bytes_after",
    "records_before",
    "records_after",
)


def succeeds(result: Mapping[str, Any], *, fail_on: Sequence[str] = ()) -> bool:
    """Return whether the task of a run has succeeded: the run ended with exit code 0 or 3, and left
    no partition alone with a code of `fail_on`.
    """
    codes = {left["code"] for left in result["left_alone"]}
    return result["exit_code"] in _SUCCESS and codes.isdisjoint(fail_on)


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the object that is small enough for a message between tasks. A sum with an
    unknown part is None. `left_alone`: partitions by code.
    """
    partitions = result["partitions"]
    parts = {key: [partition[key] for partition in partitions] for key in _SUMS}
    sums = {key: None if None in values else sum(values) for key, values in parts.items()}
    return {
        "run_id": result["run_id"],
        "status": result["status"],
        "exit_code": result["exit_code"],
        "now": result["now"],
        "partitions": len(partitions),
        "cleaned": sum(partition["actions"] != ["none"] for partition in partitions),
        "failed": sum(partition["error"] is not None for partition in partitions),
        "left_alone": dict(Counter(left["code"] for left in result["left_alone"])),
        "cleaner_off": (result["totals"] or {}).get("cleaner_off", 0),
        **sums,
        "ledger": result["ledger"],
    }


def left_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each partition that was left alone, with its code and reason; of many
    partitions, for the first ones.
    """
    left = result["left_alone"]
    for partition in left[:_MOST_LINES]:
        where = f"{partition['topic']}-{partition['partition']} in {partition['log_dir']}"
        why = partition["error"] or partition["reason"]
        yield f"{where} was left alone ({partition['code']}): {why}"
    if len(left) > _MOST_LINES:
        yield f"and {len(left) - _MOST_LINES} more: the file of --result has all"
