"""How many bytes the records of one batch may take in memory.

A batch of 58 KB can hold 1.9 GB, which Kafka's default limit allows. A task needs up to four times
that much to rewrite it, so a batch may take a quarter of a core's share of the memory.
WINNOW_MAX_BATCH_BYTES sets another limit.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from winnow.errors import UsageError

VARIABLE = "WINNOW_MAX_BATCH_BYTES"
LEAST_BYTES = 256 * 2**20
"""The limit is never lower, however little memory there is, unless the process itself has less."""
_TIMES = 4
_OTHERS = 4
"""A quarter of the memory is left for the JVM, the page cache and everything else."""
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@cache
def batch_budget() -> int:
    """The limit in bytes, computed once per process."""
    return budget_of(os.environ, memory=_memory(), cores=_cores(), process=_process_limit())


def budget_of(
    environment: Mapping[str, str], *, memory: int, cores: int, process: int | None
) -> int:
    """Return the limit in bytes.

    `memory`: bytes of the machine or container. `process`: the limit of this process alone, None if
    it has none.
    """
    given = environment.get(VARIABLE)
    if given is not None:
        if not given.isascii() or not given.isdigit() or int(given) == 0:
            raise UsageError(
                f"{VARIABLE} is not a number of bytes", expected="1 or more", found=repr(given)
            )
        return int(given)
    share = max(memory * (_OTHERS - 1) // _OTHERS // cores // _TIMES, LEAST_BYTES)
    return share if process is None else min(share, process // _TIMES)


def hint() -> str:
    """What to do about a batch that exceeds the limit."""
    return (
        f"A batch may take {batch_budget()} bytes in the memory of this machine. To allow more, "
        f"set {VARIABLE} for the workers, for example with `--conf "
        "spark.executorEnv.WINNOW_MAX_BATCH_BYTES=2147483639`, or as an environment variable where "
        "all runs on one machine; a task then needs up to four times as much memory."
    )


def _memory() -> int:
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUPS:
        with suppress(OSError, ValueError):
            found.append(int(Path(path).read_text(encoding="ascii")))  # `max`: no limit
    return min(found)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _process_limit() -> int | None:
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)
