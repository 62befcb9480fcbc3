"""Winnow as a task of Apache Airflow: its Spark provider's operator, told which application, binary
and arguments.

Nothing else in Winnow imports this module, and it needs nothing of Winnow's but its own files:
Airflow's environment has to have `apache-airflow-providers-apache-spark` and this directory on its
path, and no package of ours.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

HOME = str(Path(__file__).resolve().parents[2])
"""Where Winnow lies, with its spark-submit.sh."""
_SUMS = (
    "segments_before",
    "segments_after",
    "bytes_before",
    "bytes_after",
    "records_before",
    "records_after",
)


class WinnowCleanOperator(SparkSubmitOperator):  # type: ignore[misc]
    """Cleans the log directories of one stopped broker.

    `as_of`: the clock of every decision, by default the end of the data interval, so that a retry
    decides as the first try did, goes on where that was killed, and otherwise finds nothing left to
    do. `arguments`: more of those of `winnow clean`. `home`: Winnow on the machine that the task
    runs on. `result_file`: where driver and worker of Airflow both see it; needed where the driver
    runs elsewhere, as in Spark's cluster mode.

    XCom `return_value`, and `result` also of a run that failed after it had a result: `summary` of
    it. All arguments of SparkSubmitOperator are taken but for the application, its arguments and
    the binary.
    """

    template_fields: ClassVar[Sequence[str]] = (
        *SparkSubmitOperator.template_fields,
        "log_dirs",
        "topics",
        "as_of",
        "ledger",
        "arguments",
        "result_file",
    )
    ui_color = "#d9ead3"

    def __init__(
        self,
        *,
        log_dirs: Sequence[str],
        topics: Sequence[str] = (),
        as_of: str = "{{ data_interval_end.isoformat() }}",
        ledger: str | None = None,
        arguments: Sequence[str] = (),
        result_file: str | None = None,
        home: str = HOME,
        **spark: Any,  # noqa: ANN401 - SparkSubmitOperator's
    ) -> None:
        spark.setdefault("name", "winnow")
        super().__init__(
            application=f"{home}/jobs/winnow_job.py",
            spark_binary=f"{home}/spark-submit.sh",
            **spark,
        )
        self.log_dirs = log_dirs
        self.topics = topics
        self.as_of = as_of
        self.ledger = ledger
        self.arguments = arguments
        self.result_file = result_file

    def execute(self, context: Any) -> dict[str, Any] | None:  # noqa: ANN401 - Airflow's
        """The summary of the run. Raises AirflowException, as SparkSubmitOperator does, for every
        other exit code.
        """
        with tempfile.TemporaryDirectory(prefix="winnow-") as directory:
            file = Path(self.result_file or f"{directory}/result.json")
            file.unlink(missing_ok=True)
            self.application_args = self.command(str(file))
            try:
                super().execute(context)
            finally:
                totals = (
                    summary(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None
                )
                if totals is not None:
                    context["ti"].xcom_push(key="result", value=totals)
            return totals

    def command(self, result_file: str) -> list[str]:
        """What the application is told, templates rendered."""
        ledger = ["--no-ledger"] if self.ledger is None else ["--ledger", self.ledger]
        topics = [word for topic in self.topics for word in ("--topics", topic)]
        more = ["--now", self.as_of, "--quiet", "--report", "none", "--result", result_file]
        return ["clean", *self.log_dirs, *topics, *more, *ledger, *self.arguments]


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Of the JSON object of a run what is small enough for XCom. A sum with an unknown part is
    null.
    """
    partitions = result["partitions"]
    sums = {}
    for key in _SUMS:
        values = [partition[key] for partition in partitions]
        sums[key] = None if None in values else sum(values)
    return {
        "run_id": result["run_id"],
        "status": result["status"],
        "now": result["now"],
        "partitions": len(partitions),
        "cleaned": sum(partition["actions"] != ["none"] for partition in partitions),
        "failed": sum(partition["error"] is not None for partition in partitions),
        **sums,
        "ledger": result["ledger"],
    }
