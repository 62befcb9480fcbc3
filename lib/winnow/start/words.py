"""What a start of a broker would do, in sentences. Every verb says the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from winnow.start.values import BrokerStart, Fate, LogStart
from winnow.words import counted, first_few, size

_MOST = 8
"""Partitions that are named for one reason. `--json` has all."""
_OF_LOGS = {
    Fate.UNKNOWN: "it can't be predicted what the start does with",
    Fate.NOT_SERVED: "the broker loads, but does not serve,",
    Fate.SET_ASIDE: "the broker sets aside (renames to `-stray` and does not serve)",
    Fate.LOSES: "the start deletes records of",
    Fate.OFFLINE: "the log directory goes offline because of",
    Fate.STOPS: "the broker stops because of",
}


def verdict(start: BrokerStart) -> str:
    """Return in one sentence what happens if this broker starts now."""
    what = "controller" if start.is_controller else "broker"
    who = f"the {what}" if start.node_id is None else f"{what} {start.node_id}"
    if start.fate is Fate.STOPS:
        return f"{who} does not start"
    anew = [f"makes {counted(len(start.made_anew), 'partition')} anew"] if start.made_anew else []
    has_lost = any(log.already_lost for one in start.log_dirs for log in one.logs)
    if start.fate is Fate.RECOVERS and not anew and not has_lost:
        cut = f", and cuts {size(start.cut_bytes)}" if start.cut_bytes else ""
        swaps = [log.name for log in start.logs(Fate.RECOVERS) if log.reason]
        if swaps and not start.recovered_bytes:
            return f"{who} starts after finishing interrupted swaps of {first_few(swaps, _MOST)}"
        return f"{who} starts after recovering {size(start.recovered_bytes)}{cut}"
    without = start.of_broker is Fate.LOSES and not start.logs(Fate.LOSES)
    loses = "lacks records of its metadata log" if without else "deletes records"
    if start.fate is Fate.RECOVERS:
        anew.insert(0, f"recovers {size(start.recovered_bytes)}")
    words = anew + [
        phrase
        for fate, phrase in (
            (Fate.OFFLINE, "serves only some of its log directories"),
            (Fate.LOSES, loses),
            (Fate.NOT_SERVED, "does not serve all partitions"),
            (Fate.SET_ASIDE, f"sets {counted(len(start.logs(Fate.SET_ASIDE)), 'partition')} aside"),
        )
        if start.fate is fate or start.logs(fate)
    ]
    if start.of_broker is Fate.UNKNOWN:
        return f"it can't be predicted what {who} does" + (
            f". If it starts, it {', '.join(words)}" if words else ""
        )
    if start.fate is Fate.UNKNOWN:
        words.append("it can't be predicted whether all partitions are served")
    if has_lost:
        words.append("serves logs that have lost records")
    return f"{who} starts" + (f" and {', '.join(words)}" if words else " at once")


def start_lines(start: BrokerStart) -> Iterator[str]:
    """Yield the reasons for `verdict`, most harmful first: those of the broker, of its log
    directories, and of its partitions, grouped by reason. Nothing if all is well.
    """
    yield from start.reasons
    for one in start.log_dirs:
        yield from one.reasons
    logs = [log for one in start.log_dirs for log in one.logs]
    for fate in reversed(Fate):
        if fate in _OF_LOGS:
            by_reason: dict[str, list[LogStart]] = {}
            for log in (log for log in logs if log.fate is fate):
                by_reason.setdefault(log.reason, []).append(log)
            for reason, same in by_reason.items():
                yield f"{_OF_LOGS[fate]} {_names(same)}: {reason}"
    by_advice: dict[str, list[LogStart]] = {}
    for log in (log for log in logs if log.already_lost):
        by_advice.setdefault(log.advice, []).append(log)
    for advice, same in by_advice.items():
        if advice:
            yield f"{_names(same)} {'have' if len(same) > 1 else 'has'} lost records. {advice}"
        yield from (f"{log.name}: {log.already_lost}" for log in same)
    if start.caveat:
        yield start.caveat


def _of_lost(log: LogStart) -> str:
    return f"{log.already_lost}. {log.advice}" if log.advice else log.already_lost


def _names(logs: Sequence[LogStart]) -> str:
    return first_few([log.name for log in logs], _MOST)


def starts_to_json(starts: Sequence[BrokerStart]) -> list[dict[str, Any]]:
    """Return one object per broker. Logs that load as they are, are only counted."""
    return [
        {
            "node_id": start.node_id,
            "fate": start.fate,
            "is_safe": start.is_safe,
            "recovered_bytes": start.recovered_bytes,
            "cut_bytes": start.cut_bytes,
            "reasons": [*start.reasons, *([start.caveat] if start.caveat else [])],
            "left_out": start.left_out,
            "log_dirs": [
                {
                    "log_dir": one.path,
                    "fate": one.fate,
                    "reasons": list(one.reasons),
                    "loads": sum(log.fate is Fate.LOADS for log in one.logs),
                    "logs": [
                        {
                            "directory": log.name,
                            "topic": log.topic_partition.topic,
                            "partition": log.topic_partition.partition,
                            "fate": log.fate,
                            "reason": log.reason or _of_lost(log) or None,
                            "recovered_bytes": log.recovered_bytes,
                            "cut_bytes": log.cut_bytes,
                            "log_start_offset": log.log_start_offset,
                            "log_end_offset": log.log_end_offset,
                        }
                        for log in one.logs
                        if log.fate is not Fate.LOADS or log.already_lost
                    ],
                }
                for one in start.log_dirs
            ],
        }
        for start in starts
    ]
