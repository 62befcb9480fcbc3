"""How long `./spark-submit.sh clean` takes before it reads a log, and for a log with next to
nothing in it; writes cold-start.md.

    .venv/bin/python benchmarks/cold.py [--repeat 9] [--beside DIRECTORY]

Each run is a process of its own on a fresh copy of a tiny log directory, what it loads in the page
cache; the runs alternate. `--beside`: another checkout that is set up, measured in turns with this
one. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lib")]
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba"))

from benchmarks.cases import Case  # noqa: E402 - needs the path above
from benchmarks.data import DATA, NOW, DataSet, fresh_copy, made_in, make  # noqa: E402
from benchmarks.machine import describe_machine, say  # noqa: E402
from benchmarks.peak import tree_of  # noqa: E402
from benchmarks.watch import FirstOpen  # noqa: E402

RAW_BYTES, SEGMENT_BYTES = 2 << 20, 1 << 20
MOST_TO_FIRST_BYTE, MOST_IN_ALL = 2.0, 3.0
"""Seconds of the wall that it may take, the second with the ledger and the report."""
KINDS = {
    "bare": "`clean --no-ledger --report none`",
    "whole": "`clean`, with ledger and report",
}
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One run. Seconds: of the wall, and of all processes' CPU, user and system."""

    to_first_byte: float
    cpu_to_first_byte: float
    in_all: float
    cpu_in_all: float


Starts = dict[tuple[str, str], list[Start]]
"""By checkout and kind."""


def main() -> None:
    options = parse(sys.argv[1:])
    adopt_orphans()
    checkouts = (
        {"": ROOT} if options.beside is None else {"": ROOT, "beside": options.beside.resolve()}
    )
    DATA.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=DATA, prefix="cold-"))
    starts: Starts = {(name, kind): [] for name in checkouts for kind in KINDS}
    try:
        make(Case("tiny"), RAW_BYTES, scratch, segment_bytes=SEGMENT_BYTES)
        data = made_in(Case("tiny"), scratch)
        for turn in range(-1, options.repeat):
            for (name, kind), taken in starts.items():
                found = start(checkouts[name], data, scratch, kind)
                say(f"{turn + 1}/{options.repeat} {name} {kind}: {found}")
                if turn >= 0:  # the first one fills the page cache, and makes the ledger
                    taken.append(found)
    finally:
        shutil.rmtree(scratch)
    if options.beside is None:
        options.output.write_text(report(starts, options.repeat), encoding="utf-8")
        say(f"written: {options.output}")
    else:
        print("\n".join(table(starts)))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument(
        "--beside", type=Path, help="a checkout; then nothing is written but a table on stdout"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results" / "cold-start.md"
    )
    return parser.parse_args(arguments)


def start(checkout: Path, data: DataSet, scratch: Path, kind: str) -> Start:
    run = Path(tempfile.mkdtemp(dir=scratch, prefix="run-"))
    log_dir = fresh_copy(data, run / "log-dir")
    command = [
        str(checkout / "spark-submit.sh"),
        "--master",
        "local[2]",
        "clean",
        str(log_dir),
        "--json",
    ]
    command += ["--topic-configs", str(data.topic_configs), "--now", str(NOW)]
    command += (
        ["--no-ledger", "--report", "none"]
        if kind == "bare"
        else ["--ledger", str(scratch / "ledger")]
    )
    logs = [log for log in log_dir.glob("*/*.log") if log.stat().st_size]
    with FirstOpen(logs) as opened, (run / "out").open("w") as out, (run / "err").open("w") as err:
        cpu = cpu_of_the_dead()
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment(run))
        first = None
        while first is None and process.poll() is None:
            first = opened.wait(seconds=1)
        cpu_to_first_byte = cpu_of_tree(process.pid)
        code = process.wait()
        in_all = time.perf_counter() - begin
        wait_for_orphans()
    if code or first is None or json.loads((run / "out").read_text())["status"] != "done":
        raise SystemExit(
            f"clean ended with {code}\n{(run / 'out').read_text()}\n{(run / 'err').read_text()}"
        )
    shutil.rmtree(run)
    return Start(
        to_first_byte=first - begin,
        cpu_to_first_byte=cpu_to_first_byte,
        in_all=in_all,
        cpu_in_all=cpu_of_the_dead() - cpu,
    )


def environment(scratch: Path) -> dict[str, str]:
    """The environment without this process's own settings, for the measured process."""
    return {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"} | {
        "TMPDIR": str(scratch)
    }


def adopt_orphans() -> None:
    """A process whose parent has ended becomes a child of this one: so all are waited for, and
    their time is known.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def wait_for_orphans() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def cpu_of_the_dead() -> float:
    """Seconds of all that this process has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_of_tree(pid: int) -> float:
    """Seconds so far of a process, all that it started, and those of them that it has waited
    for.
    """
    ticks = 0
    for one in tree_of(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def report(starts: Starts, repeat: int) -> str:
    made = (
        f"Made by `benchmarks/cold.py --repeat {repeat}` on {dt.datetime.now(tz=dt.UTC).date()}; "
        f"medians of {repeat} runs, in turns, each a process of its own. Everything is installed "
        "and in the page cache; a log directory of one partition with 2 MiB in three segments is "
        "cleaned. The first byte of a log is read when inotify tells of the first opening of a "
        "`.log`. CPU seconds are those of all processes, to their ends."
    )
    aims = (
        f"Aims: the first byte within {MOST_TO_FIRST_BYTE:.0f} s, all of it, ledger and report "
        f"included, within {MOST_IN_ALL:.0f} s. "
        "What was tried: [what-was-tried.md](what-was-tried.md)."
    )
    parts = (
        "# From the command to the log",
        textwrap.fill(made, 100, break_on_hyphens=False),
        describe_machine(),
        "\n".join(table(starts)),
        textwrap.fill(aims, 100, break_on_hyphens=False),
    )
    return "\n\n".join(parts) + "\n"


def table(starts: Starts) -> list[str]:
    lines = [
        "| | first byte s | CPU s until then | in all s | CPU s | least-most in all s |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for (name, kind), taken in starts.items():
        columns = zip(
            *((s.to_first_byte, s.cpu_to_first_byte, s.in_all, s.cpu_in_all) for s in taken),
            strict=True,
        )
        medians = " | ".join(f"{statistics.median(column):.2f}" for column in columns)
        ends = [one.in_all for one in taken]
        label = KINDS[kind] + (f" ({name})" if name else "")
        lines.append(f"| {label} | {medians} | {min(ends):.2f}-{max(ends):.2f} |")
    return lines


if __name__ == "__main__":
    main()
