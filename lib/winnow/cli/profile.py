"""`--profile`: where the time of a run was spent, from the start of its process to its result."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from winnow.cli.out import Row, aligned
from winnow.clock import now_ms
from winnow.runtime.profile import Mark, Phase, Profile, Profiler, profiling, together
from winnow.runtime.session import WithContext
from winnow.words import size


def profiling_verb(
    spark: WithContext, *, begun_ms: int, asked_ms: int
) -> AbstractContextManager[Profiler]:
    """Return what measures a verb that began and asked for Spark at these times."""
    earlier = [
        Mark("starting the process", _process_began_ms(spark, begun_ms)),
        Mark("reading the command", begun_ms),
        Mark("starting Spark", asked_ms),
        Mark("opening log directories", now_ms()),
    ]
    return profiling(spark.sparkContext, earlier=earlier)


def table(profile: Profile) -> Iterator[str]:
    """Yield a line for each phase, the sum last. Seconds of tasks are added up, so on many cores
    they exceed the elapsed time.
    """
    phases = [*profile.phases, together("all", profile.phases)]
    rows = [_row(phase, profile.seconds) for phase in phases]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    yield f"profile: {profile.seconds:.2f} s until here"
    yield from aligned([{name: row[name] for name in shown} for row in rows], "phase")
    if back := sum(phase.read_back_seconds for phase in profile.phases):
        yield f"reading back what was written: {back:.2f} s of the tasks' time"


def _row(phase: Phase, seconds: float) -> Row:
    times = {
        "task s": phase.task_seconds,
        "Python s": phase.python_cpu_seconds,
        "JVM s": phase.jvm_cpu_seconds,
        "GC s": phase.gc_seconds,
    }
    amounts = {
        "read": phase.bytes_read,
        "written": phase.bytes_written,
        "shuffled": phase.shuffle_bytes_written,
        "spilled": phase.spilled_bytes,
    }
    return {
        "phase": phase.name,
        "seconds": f"{phase.seconds:.2f}",
        "share": f"{100 * phase.seconds / seconds:.0f} %" if seconds else "",
        "driver": f"{phase.driver_seconds:.2f}",
        "jobs": str(phase.jobs or ""),
        "tasks": str(phase.tasks or ""),
        **{name: f"{value:.2f}" if round(value, 2) else "" for name, value in times.items()},
        **{name: size(count) if count else "" for name, count in amounts.items()},
    }


def _process_began_ms(spark: WithContext, latest_ms: int) -> int:
    """Return when spark-submit began, which became the JVM and started this process. Without it,
    return when this process began.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no other way to the JVM
    own = "PYSPARK_GATEWAY_PORT" not in os.environ
    pid = os.getpid() if own else jvm.java.lang.ProcessHandle.current().pid()
    return min(began_ms(pid), latest_ms)


def began_ms(pid: int) -> int:
    """Return when a process of this machine began. Java's `startInstant` counts from a time of boot
    in whole seconds.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    return now_ms() - round(1000 * age)
