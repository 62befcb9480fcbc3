"""Cleans the log directories of every broker once a day, a task for each, and records all of it in
one ledger.

A broker has to be stopped while its directories are cleaned: put the tasks that stop and start it
around each of these, or let the tasks work on snapshots of the disks. Where brokers have machines
of their own, the argument `queue` sends a task to the worker on that machine; `pool`, of one slot,
has one broker cleaned at a time.

A run that leaves partitions alone, such as tiered topics, succeeds, and the task's log names them.
Damage fails the task.

Put it into Airflow's dags folder, with the package `apache-airflow-providers-apache-spark` in
Airflow's environment, Winnow's `lib` on PYTHONPATH, and a Spark connection `spark_default`.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from winnow.airflow import WinnowCleanOperator

BROKERS: dict[str, list[str]] = json.loads(
    os.environ.get(
        "WINNOW_BROKERS", '{"broker-1": ["/var/lib/kafka"], "broker-2": ["/var/lib/kafka"]}'
    )
)
TOPIC_CONFIGS = os.environ.get("WINNOW_TOPIC_CONFIGS")
"""What `kafka-configs --describe` printed, for log directories without the cluster's metadata log.
"""
LEDGER = os.environ.get("WINNOW_LEDGER", "hdfs:///winnow/ledger")

with DAG(
    dag_id="winnow",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
) as dag:
    for broker, log_dirs in BROKERS.items():
        WinnowCleanOperator(
            task_id=f"clean_{broker.replace('-', '_')}",
            log_dirs=log_dirs,
            ledger=LEDGER,
            fail_on=["damaged", "unreadable", "verification-failed"],
            arguments=[
                "--timeout",
                "2h",
                *(["--topic-configs", TOPIC_CONFIGS] if TOPIC_CONFIGS else []),
            ],
        )
