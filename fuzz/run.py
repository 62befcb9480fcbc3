"""Feeds mutated inputs to the parsers and writes RESULTS.md.

    .venv/bin/python fuzz/run.py [--target records log] [--executions 10000000] [--seed 1]
        [--output fuzz/RESULTS.md]

Needs the project set up (`./run-tests.sh tests/unit/test_errors.py` does that). Executions are
shared among the targets by their weights. One process at a time; whatever an input does to it, the
next one goes on after it. What was done is written as it goes on, and when it is stopped (SIGINT,
SIGTERM). Exit code 1 if anything was found; the inputs are then in `.cache/fuzz/found`, and belong
into `fuzz/regressions`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import mmap
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
FOUND = ROOT / ".cache" / "fuzz" / "found"

from fuzz.targets import TARGETS  # noqa: E402 - needs the path above
from fuzz.worker import MEMORY, SLOW_SECONDS, STATE, STATE_SIZE, TWINS, report  # noqa: E402

STALLED_SECONDS = 60
SLICE = 50_000
"""Executions of one process, times the target's weight: a new one has no memory of what the last
one did to it.
"""


@dataclass(slots=True)
class Total:
    """Of one target."""

    executions: int = 0
    accepted: int = 0
    seconds: float = 0
    """Of the processor, with the start of each process."""
    findings: int = 0
    peak_mib: int = 0


def main() -> int:
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    totals: dict[str, Total] = {name: Total() for name in options.target}
    try:
        fuzz(totals, options)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    write(totals, options)
    return 1 if any(total.findings for total in totals.values()) else 0


def fuzz(totals: dict[str, Total], options: argparse.Namespace) -> None:
    weights = {name: TARGETS[name].weight for name in totals}
    planned = {
        name: -(-options.executions * weight // sum(weights.values()))
        for name, weight in weights.items()
    }
    begin = time.monotonic()
    number = 0
    while left := [name for name in totals if totals[name].executions < planned[name]]:
        # In turns, so that what is interrupted has been everywhere.
        for name in left:
            number += 1
            some = min(SLICE * weights[name], planned[name] - totals[name].executions)
            add(totals[name], name, seed=options.seed * 1_000_003 + number, executions=some)
            write(totals, options)
            done = sum(total.executions for total in totals.values())
            minutes = (time.monotonic() - begin) / 60
            sys.stderr.write(
                f"{done:,} of {sum(planned.values()):,} in {minutes:.1f} min; last: {name}\n"
            )


def write(totals: dict[str, Total], options: argparse.Namespace) -> None:
    options.output.write_text(results(totals, options), encoding="utf-8")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target", nargs="+", choices=sorted(TARGETS), default=list(TARGETS), metavar="TARGET"
    )
    parser.add_argument(
        "--executions", type=int, default=1_000_000, help="in all (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "fuzz" / "RESULTS.md")
    return parser.parse_args(arguments)


def add(total: Total, name: str, *, seed: int, executions: int) -> None:
    """One process's share. A process that dies, or stalls, is a finding; what it had done
    counts.
    """
    begin = children_seconds()
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(STATE_SIZE)
        command = [
            sys.executable,
            "-m",
            "fuzz.worker",
            name,
            str(seed),
            str(executions),
            file.name,
            str(FOUND),
        ]
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"}
        with mmap.mmap(file.fileno(), STATE_SIZE) as state:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, start_new_session=True
            )
            try:
                why = watch(process, state)
            except KeyboardInterrupt:
                process.kill()
                process.wait()
                total.executions += STATE.unpack_from(state)[0]
                total.seconds += children_seconds() - begin
                raise
            done, accepted, size = STATE.unpack_from(state)
            if not done:
                sys.exit(
                    f"{name}: the process ended with {process.returncode} before its first input, "
                    "see above"
                )
            said = process.stdout.read() if process.stdout else b""
            if why is not None or process.returncode:
                data = state[STATE.size : STATE.size + size]
                report(FOUND, name, data, why or f"the process ended with {process.returncode}")
                total.findings += 1
            else:
                last = json.loads(said)
                total.findings += last["findings"]
                total.peak_mib = max(total.peak_mib, last["peak_mib"])
    total.executions += done
    total.accepted += accepted
    total.seconds += children_seconds() - begin


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def watch(process: subprocess.Popen[bytes], state: mmap.mmap) -> str | None:
    """Waits for the end; why it was put to one, if it stood still."""
    last, since = 0, time.monotonic()
    while True:
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            done = STATE.unpack_from(state)[0]
            if done != last:
                last, since = done, time.monotonic()
            elif done and time.monotonic() - since > STALLED_SECONDS:
                process.kill()
                process.wait()
                return f"no end after {STALLED_SECONDS} s"
        else:
            return None


def checks_bounds() -> bool:
    return os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def results(totals: dict[str, Total], options: argparse.Namespace) -> str:
    executions = sum(total.executions for total in totals.values())
    findings = sum(total.findings for total in totals.values())
    checks = ", bounds checks on" if checks_bounds() else ""
    where = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"one process{checks}"
    )
    begun = f"Seed {options.seed}, {dt.datetime.now(dt.UTC):%Y-%m-%d}, {where}."
    lines = [
        "# Fuzzing: last run",
        "",
        f"{executions:,} executions of {options.executions:,} planned, {findings} findings.",
        begun,
        "",
        (
            "These are findings: any exception but the documented refusals, a property that does "
            "not "
            "hold, a"
        ),
        (
            f"dead process, more than {SLOW_SECONDS:.0f} s of processor time for one input, or "
            f"{MEMORY >> 30} GiB more of"
        ),
        "address space.",
        (
            f"The plain twins of kernels judge one input in {TWINS}. Seconds are those of the "
            "processor."
        ),
        "",
        "| target | executions | accepted | per second | peak RSS, MiB | findings |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, total in totals.items():
        if total.executions:
            lines.append(
                f"| {name} | {total.executions:,} | {total.accepted / total.executions:.0%} "
                f"| {total.executions / total.seconds:,.0f} | {total.peak_mib:,} | "
                f"{total.findings} |"
            )
    return "\n".join([*lines, "", "Written by `fuzz/run.py`.", ""])


if __name__ == "__main__":
    sys.exit(main())
