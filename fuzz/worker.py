"""One process that feeds a target until it is stopped or dies: `python -m fuzz.worker`, started by
`run.py`.

It first writes each input to a file that the runner has mapped as well. After a death or a hang the
runner finds the input there.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import random
import resource
import struct
import sys
import time
import traceback
from pathlib import Path

from fuzz.mutate import LONGEST, apply, random_edits
from fuzz.targets import TARGETS

STATE = struct.Struct("<QQI")
"""Inputs begun, inputs accepted, bytes of the present one; it follows."""
STATE_SIZE = STATE.size + LONGEST
SLOW_SECONDS = 1.0
"""Of the processor, for one input: more is a finding."""
MEMORY = 1 << 30
"""Bytes of address space beyond what the process has when it begins."""

TWINS = 10
"""One input in so many is judged by the plain twins of the kernels as well."""

_POOL = 2000
_ADOPT = 0.02


def main() -> None:
    name, seed, executions, state_file, found = sys.argv[1:]
    with open(state_file, "r+b") as file:
        state = mmap.mmap(file.fileno(), STATE_SIZE)
    findings = run(name, seed=int(seed), executions=int(executions), state=state, found=Path(found))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    sys.stdout.write(json.dumps({"findings": findings, "peak_mib": usage.ru_maxrss // 1024}))


def run(name: str, *, seed: int, executions: int, state: mmap.mmap, found: Path) -> int:
    """How many different findings there were; each one's input and traceback are in `found`."""
    target = TARGETS[name]
    seeds = list(target.seeds())
    for data in seeds:
        target.accepts(data)
        # Compiles what there is to compile, before memory is limited.
        target.accepts(data, twins=False)
    _limit_memory()
    rng = random.Random(f"{name} {seed}")
    pool = list(seeds)
    seen: set[str] = set()
    accepted = 0
    for number in range(1, executions + 1):
        data = apply(pool[rng.randrange(len(pool))], random_edits(rng), others=seeds)
        STATE.pack_into(state, 0, number, accepted, len(data))
        state[STATE.size : STATE.size + len(data)] = data
        begin = time.thread_time()
        try:
            good = target.accepts(data, twins=number % TWINS == 0)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            frames = traceback.extract_tb(error.__traceback__)[-2:]
            place = " ".join(f"{frame.filename}:{frame.lineno}" for frame in frames)
            if place not in seen:
                seen.add(place)
                report(found, name, data, traceback.format_exc())
            continue
        if time.thread_time() - begin > SLOW_SECONDS and "slow" not in seen:
            seen.add("slow")
            report(found, name, data, f"more than {SLOW_SECONDS} s of processor time")
        accepted += good
        # What was accepted leads on to what is odd in two places.
        if good and rng.random() < _ADOPT:
            if len(pool) < _POOL:
                pool.append(data)
            else:
                pool[rng.randrange(len(seeds), _POOL)] = data
    STATE.pack_into(state, 0, executions, accepted, 0)
    return len(seen)


def report(found: Path, name: str, data: bytes, why: str) -> None:
    """Keeps the input under its hash, and says why beside it."""
    directory = found / name
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(why, encoding="utf-8")
    sys.stderr.write(f"{name}: {path}\n{why}\n")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
