"""rolling.py as a DAG: a task prepares each broker, then a task cleans each, one after the other.

A task that fails ends the run: no other broker is stopped. Clear the failed task, and the run goes
on from there. Put this file and rolling.py into Airflow's dags folder, and install requirements.txt
in Airflow's environment. The commands of the file run on the worker.
"""

from __future__ import annotations

import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import DAG, task

sys.path.append(str(Path(__file__).parent))
import rolling

PLAN = Path(os.environ.get("WINNOW_ROLLING", "/etc/winnow/rolling.toml"))


@task
def prepare(broker: int) -> None:
    rolling.prepare(rolling.read_plan(PLAN), broker, threading.Event())


@task
def clean(broker: int) -> None:
    plan = rolling.read_plan(PLAN)
    rolling.clean(rolling.connect(plan), plan, broker, allow_unavailable=False)


with DAG(
    dag_id="winnow_rolling",
    schedule="0 3 * * 6",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 0},
) as dag:
    brokers = rolling.read_plan(PLAN).brokers
    prepared = [
        prepare.override(task_id=f"prepare_{name.replace('-', '_')}")(broker)
        for broker, name in brokers.items()
    ]
    before = prepared
    for broker, name in brokers.items():
        cleaned = clean.override(task_id=f"clean_{name.replace('-', '_')}")(broker)
        for task_before in before:
            task_before >> cleaned
        before = [cleaned]
