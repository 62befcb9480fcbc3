"""Run the example DAG in Airflow over the log directories of two brokers, twice, and over one that
is damaged. Check the results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.log_writer.dir_writer import LogDirWriter
from winnow.wire.plain import Record

ROOT = Path(__file__).resolve().parents[2]
RESULT = Path(__file__).with_name("RESULT.md")
AS_OF = "2026-11-20T03:00:00+00:00"
AS_OF_MS = int(datetime.fromisoformat(AS_OF).timestamp() * 1000)
WRITTEN = AS_OF_MS - 3_600_000
TASKS = ("clean_broker_1", "clean_broker_2")


def write_broker(path: Path, node: int, *, unknown: bool = False, damaged: bool = False) -> Path:
    """A topic whose records are mostly superseded. `unknown`: and a topic without settings.
    `damaged`: and a batch that does not match its CRC.
    """
    with LogDirWriter(path, clock=lambda: WRITTEN, node_id=node) as log_dir:
        log = log_dir.partition("orders", 0)
        for round_ in range(20):
            log.append_records(
                [Record(0, WRITTEN, b"key-%d" % n, b"%d" % round_ * 200) for n in range(10)]
            )
        log.roll()
        log.append_records([Record(0, WRITTEN, b"last", b"value")])
        if unknown:
            log_dir.partition("unknown", 0).append_records([Record(0, WRITTEN, b"k", b"v")])
    if damaged:
        segment = min((path / "orders-0").glob("*.log"))
        changed = bytearray(segment.read_bytes())
        changed[100] ^= 255
        segment.write_bytes(changed)
    return path


def logs_of(brokers: Mapping[str, Path]) -> dict[str, tuple[int, int]]:
    """(inode, bytes) of every log."""
    found = {}
    for broker, path in brokers.items():
        for log in path.rglob("*.log"):
            found[f"{broker}/{log.name}"] = (log.stat().st_ino, log.stat().st_size)
    return found


def run_dag(airflow: str, environment: Mapping[str, str]) -> tuple[float, str]:
    """Seconds, and all that Airflow said."""
    began = time.monotonic()
    ran = subprocess.run(
        [airflow, "dags", "test", "winnow", AS_OF],
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    sys.stderr.write(ran.stdout)
    return time.monotonic() - began, ran.stdout


def states(home: Path) -> dict[str, str]:
    """The state of each task of the newest run."""
    with sqlite3.connect(home / "airflow.db") as database:
        rows = database.execute(
            "select task_id, task_instance.state from task_instance "
            "join dag_run using (dag_id, run_id) "
            "where dag_run.id = (select max(id) from dag_run)"
        )
        return dict(rows)


def xcoms(home: Path) -> dict[str, dict[str, Any]]:
    """The newest `return_value` of each task."""
    with sqlite3.connect(home / "airflow.db") as database:
        rows = database.execute(
            "select task_id, value from xcom where key = 'return_value' order by timestamp"
        )
        found: dict[str, dict[str, Any]] = {}
        for task, value in rows:
            loaded = json.loads(value)
            found[task] = json.loads(loaded) if isinstance(loaded, str) else loaded
    return found


def expect(what: str, *, found: object, expected: object) -> str:
    if found != expected:
        raise SystemExit(f"{what}: expected {expected}, found {found}")
    return f"- {what}: {found}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("airflow", help="the command")
    parser.add_argument("--record", action="store_true", help=f"write {RESULT.name}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="winnow-airflow-") as directory:
        lines = check(arguments.airflow, Path(directory))
    sys.stdout.write("\n".join(lines) + "\n")
    if arguments.record:
        RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def check(airflow: str, directory: Path) -> list[str]:
    brokers = {
        f"broker-{node}": write_broker(directory / f"broker-{node}", node, unknown=node == 2)
        for node in (1, 2)
    }
    home = directory / "home"
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))
    } | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "PYTHONPATH": str(ROOT / "lib"),
        "WINNOW_BROKERS": json.dumps({broker: [str(path)] for broker, path in brokers.items()}),
        "WINNOW_LEDGER": str(directory / "ledger"),
        "WINNOW_TOPIC_CONFIGS": str(directory / "topics"),
    }
    (directory / "topics").write_text(
        "orders cleanup.policy=compact\norders min.cleanable.dirty.ratio=0\n"
    )
    subprocess.run(
        [airflow, "db", "migrate"], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    before = logs_of(brokers)
    seconds, said = run_dag(airflow, environment)
    after_first = states(home)
    cleaned = logs_of(brokers)
    told = xcoms(home)
    version = subprocess.run(
        [airflow, "version"], env=environment, check=True, capture_output=True, text=True
    ).stdout
    where = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}), "
        "other work beside it"
    )
    ran = f"`airflow dags test winnow {AS_OF}` over two brokers took {seconds:.0f} s"
    head = (
        f"`tests/airflow/run.sh --record`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Airflow "
        f"{version.split()[-1]}, {where}. {ran}; a run of the same date follows, and one over a "
        "damaged directory."
    )
    lines = [
        "# The example DAG in Airflow",
        "",
        *textwrap.wrap(head, 100, break_on_hyphens=False),
        "",
        expect("tasks that told a summary by XCom", found=sorted(told), expected=sorted(TASKS)),
    ]
    for task in TASKS:
        summary = told[task]
        left = {"settings-unknown": 1} if task == TASKS[1] else {}
        status = "partial" if left else "done"
        lines.append(expect(f"{task}, state", found=after_first[task], expected="success"))
        lines.append(expect(f"{task}, status", found=summary["status"], expected=status))
        lines.append(expect(f"{task}, left alone", found=summary["left_alone"], expected=left))
        lines.append(expect(f"{task}, clock", found=summary["now"], expected=AS_OF_MS))
        records = None if left else 11  # nobody reads those of a topic without settings
        lines.append(expect(f"{task}, records", found=summary["records_after"], expected=records))
    named = "unknown-0" in said and "was left alone (settings-unknown)" in said
    lines.append(expect("log names what was left alone", found=named, expected=True))
    sizes = [sum(size for _, size in logs.values()) for logs in (before, cleaned)]
    lines.append(expect("logs are smaller", found=sizes[1] < sizes[0], expected=True))
    run_dag(airflow, environment)
    lines.append(
        expect("a second run changed a file", found=logs_of(brokers) != cleaned, expected=False)
    )
    again = xcoms(home)
    lines.append(
        expect(
            "a second run cleaned",
            found=[again[task]["cleaned"] for task in TASKS],
            expected=[0, 0],
        )
    )
    recorded = history(directory / "ledger")
    lines.append(
        expect("runs in the one ledger", found=len(recorded["runs"]), expected=2 * len(TASKS))
    )
    wanted = sorted(told[task]["run_id"] for task in TASKS)
    freeing = sorted(run["run_id"] for run in recorded["runs"] if run["freed_bytes"])
    lines.append(
        expect(
            "those that freed something are the tasks' first",
            found=freeing == wanted,
            expected=True,
        )
    )
    bad = write_broker(directory / "broker-3", 3, damaged=True)
    _, said = run_dag(airflow, environment | {"WINNOW_BROKERS": json.dumps({"3": [str(bad)]})})
    lines.append(expect("state with damage", found=states(home), expected={"clean_3": "failed"}))
    named = "partitions were left alone: {'unreadable': 1}" in said
    lines.append(expect("log names the damage", found=named, expected=True))
    code = "from winnow.airflow import WinnowCleanOperator as Clean\nClean(**{}).execute({{}})"
    wrong = {"task_id": "x", "log_dirs": [], "home": str(home)}
    ended = subprocess.run(
        [Path(airflow).with_name("python"), "-c", code.format(wrong)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    named = "AirflowFailException: expected a checkout of Winnow, found no" in ended.stderr
    lines.append(expect("a directory that is no checkout is refused", found=named, expected=True))
    return lines


def history(ledger: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [ROOT / "spark-submit.sh", "history", "--ledger", str(ledger), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


if __name__ == "__main__":
    main()
