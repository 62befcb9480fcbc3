"""beside-kafka.md: targets and results, then all figures by case."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.aims import AIMS, KAFKAS, WARM_JVM, Aim
from benchmarks.contestants import Measure
from benchmarks.data import SEGMENT_BYTES
from benchmarks.results import Result
from benchmarks.shapes import BATCH_BYTES, COMMITTED, GROUPS, KEY_BYTES
from tests.kafka.judge.jars import KAFKA_VERSION

TITLES = {
    "kafka": "Kafka's cleaner, default buffer (128 MiB)",
    "kafka-1GiB": "Kafka's cleaner, 1 GiB buffer",
    "kafka-warm": "Kafka's cleaner, 1 GiB buffer, JVM already warm",
    "warm": "Winnow, session already warm",
    "cold": "Winnow, from process start",
    "copy": "`cp -r` + `sync`",
    "disk": "the disk alone: as much written, synced and read back",
}
MIB = 1 << 20


def report(results: Sequence[Result]) -> str:
    machines = "\n".join(dict.fromkeys(result.machine for result in results))
    head = f"""\
# Winnow beside Kafka's own cleaner

Written by `benchmarks/run.py`. Figures are medians of runs in turns. Each case names its date, its
processor and its size. Compare ratios: seconds of two cases may come from two machines.

{machines}
* Kafka {KAFKA_VERSION}: `Cleaner` on `UnifiedLog`, one thread per partition up to the number of
  cores, rounds until nothing is dirty. Time from opening the log to the last fsync. In a fresh JVM
  unless it says warm.
* Warm: the same process has cleaned a copy of the same data before. The column "process s" is the
  time from process start to its end.
* The page cache is warm, and everything is written back before each run. Memory at hand: as much
  was allocated and freed just before. A virtual machine otherwise has to get it from its host.
* {SEGMENT_BYTES // MIB} MiB segments, {BATCH_BYTES >> 10} KiB batches, {KEY_BYTES} B keys.
* Half superseded: spread evenly, so that nearly every batch has to be rebuilt. 5 % dirty: the rest
  was compacted before.
* 5 % new: as 5 % dirty, without tombstones in what was compacted. Updates of any key, of the newest
  5 % of the keys, or 95 % of the updates of 0.2 % of the keys, spread over all segments. Nothing
  new: without updates. In these cases Winnow has cleaned the older part just before, not measured,
  with the same ledger.
* Commits: {GROUPS} groups that commit {COMMITTED} partitions each, one batch a commit, as in
  `__consumer_offsets`.
"""
    shown = [_without_idle_disk(result) for result in results]
    lines = [*head.splitlines(), "", *_aims(shown)]
    for result in shown:
        lines += _table(result)
    return "\n".join(lines)


def _without_idle_disk(result: Result) -> Result:
    """Leave out the disk alone where it wrote too little to measure."""
    runs = {
        name: taken
        for name, taken in result.runs.items()
        if name != "disk" or taken[0].bytes_after >= MIB
    }
    return replace(result, runs=runs)


def _aims(results: Sequence[Result]) -> list[str]:
    lines = [
        "## Targets",
        "",
        (
            "The ratio is the seconds of Kafka or `cp` over those of Winnow in a warm session. The "
            "spread is that"
        ),
        (
            "of single turns. The targets were set against a JVM that starts with the run. A JVM "
            "that "
            "has cleaned"
        ),
        (
            "before, as a broker's has, is faster. *At most* is the highest ratio that the disk "
            "allows: it writes"
        ),
        "as much as Winnow left, syncs it, and reads it back.",
        "",
        "| case | GiB | aim | against | its s | Winnow s | ratio | spread | at most | met |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|---|",
    ]
    for aim in AIMS:
        of_case = [result for result in results if result.case.name == aim.case]
        measured = [
            result
            for result in of_case
            if "warm" in result.runs and set(aim.against) & result.runs.keys()
        ]
        lines += [
            _row(aim, result, name) for result in measured for name in _opponents(aim, result)
        ] or [_not_measured(aim)]
    return [*lines, ""]


def _not_measured(aim: Aim) -> str:
    return f"| {aim.case} | - | {_times(aim.times)} | not measured | - | - | - | - | - | - |"


def _opponents(aim: Aim, result: Result) -> list[str]:
    """The fastest in a fresh process, against which the aims were set, and the one that had time to
    warm up.
    """
    measured = [name for name in aim.against if name in result.runs]
    fresh = [name for name in measured if name != WARM_JVM]
    best = min(fresh, key=lambda name: _median(result.runs[name]), default=None)
    return [name for name in measured if name in (best, WARM_JVM)]


def _row(aim: Aim, result: Result, opponent: str) -> str:
    runs = result.runs
    theirs, ours = _median(runs[opponent]), _median(runs["warm"])
    turns = sorted(
        other.seconds / own.seconds for other, own in zip(runs[opponent], runs["warm"], strict=True)
    )
    cells = (
        aim.case,
        f"{result.mib / 1024:g}",
        _times(aim.times),
        TITLES[opponent],
        f"{theirs:.2f}",
        f"{ours:.2f}",
        _times(theirs / ours),
        f"{_times(turns[0])} - {_times(turns[-1])}",
        _times(theirs / _median(runs["disk"])) if "disk" in runs else "-",
        "yes" if theirs / ours >= aim.times else "no",
    )
    return f"| {' | '.join(cells)} |"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio >= 1 else f"1/{1 / ratio:.1f}"


def _median(runs: Sequence[Measure]) -> float:
    return statistics.median(run.seconds for run in runs)


def _processor(result: Result) -> str:
    """All cases were not measured on one machine."""
    return result.machine.partition("Machine: ")[2].partition(",")[0]


def _table(result: Result) -> list[str]:
    case, measures = result.case, result.runs
    turns = max(len(taken) for taken in measures.values())
    kafkas = [_median(measures[name]) for name in KAFKAS if name in measures]
    memory = f"memory {'' if result.memory_at_hand else 'not '}at hand"
    load = "" if result.load is None else f", load at the end {result.load:.1f}"
    lines = [
        f"## {case.name}, {result.mib / 1024:g} GiB: {case.words}",
        "",
        (
            f"{result.mib:,} MiB of keys, values: {result.records:,} records, "
            f"{result.log_bytes / MIB:,.0f} MiB of log;"
        ),
        f"{turns} turns, {result.date}, {_processor(result)}{load}, {memory}.",
        "",
        (
            "| | median s | least-most s | process s | MiB/s | Kafka's best / this | MiB left | "
            "rounds "
            "|"
        ),
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, taken in measures.items():
        seconds = sorted(run.seconds for run in taken)
        middle = statistics.median(seconds)
        whole = [run.process_seconds for run in taken if run.process_seconds is not None]
        cells = (
            TITLES[name],
            f"{middle:.2f}",
            f"{seconds[0]:.2f}-{seconds[-1]:.2f}",
            f"{statistics.median(whole):.2f}" if whole else "-",
            f"{result.log_bytes / MIB / middle:,.0f}",
            f"{min(kafkas) / middle:.1f}x" if kafkas else "-",
            f"{taken[-1].bytes_after / MIB:,.0f}",
            str(taken[-1].rounds),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if result.read_back_seconds is not None:
        lines += [
            "",
            f"Reading back what was written took {result.read_back_seconds:.2f} s of tasks' time.",
        ]
    for run in (taken[-1] for taken in measures.values()):
        if run.unchanged:
            lines += ["", f"{run.unchanged} of {run.segments} closed segments lost nothing."]
    return [*lines, ""]
