"""Run Winnow as a task of Apache Airflow. The operator extends that of Airflow's Spark provider.

Nothing else in Winnow imports this module, and it imports nothing of Winnow that needs more than
Python. Airflow's environment needs `apache-airflow-providers-apache-spark`, and the directory `lib`
on its path.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from airflow.exceptions import AirflowFailException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from winnow.task_result import left_lines, succeeds, summary

HOME = str(Path(__file__).resolve().parents[2])
"""Winnow's directory, which contains spark-submit.sh."""


class WinnowCleanOperator(SparkSubmitOperator):  # type: ignore[misc]
    """Clean the log directories of one stopped broker.

    The task succeeds if the run ends with exit code 0 or 3. With 3, partitions were left alone, as
    on a healthy broker every night: the task's log names each with its reason. `fail_on`: codes of
    such partitions (`code` in docs/reference/result.schema.json) that fail the task, and that no
    retry changes, such as `["damaged", "unreadable"]`.

    `as_of`: the clock of every decision, by default the end of the data interval. So a retry makes
    the same decisions as the first try: it continues where that was killed, or has nothing to do.
    `arguments`: more arguments of `winnow clean`. `home`: a checkout of Winnow on the machine that
    runs the task; the wheel has no `spark-submit.sh`. `result_file`: a path that both the driver
    and the Airflow worker can access. It is needed if the driver runs elsewhere, as in Spark's
    cluster mode.

    The XCom `return_value` is the `summary` of the result. The XCom `result` is the same, also for
    a run that failed after it had a result. Accepts all arguments of SparkSubmitOperator except the
    application, its arguments and the binary.
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
        fail_on: Sequence[str] = (),
        home: str = HOME,
        **spark: Any,  # noqa: ANN401 - SparkSubmitOperator's
    ) -> None:
        spark.setdefault("name", "winnow")
        super().__init__(
            application=f"{home}/jobs/winnow_job.py",
            spark_binary=f"{home}/spark-submit.sh",
            **spark,
        )
        self.home = home
        self.log_dirs = log_dirs
        self.topics = topics
        self.as_of = as_of
        self.ledger = ledger
        self.arguments = arguments
        self.result_file = result_file
        self.fail_on = fail_on

    def execute(self, context: Any) -> dict[str, Any] | None:  # noqa: ANN401 - Airflow's
        """Run Winnow and return the summary. Raises AirflowException, as SparkSubmitOperator does,
        for a failed run, and AirflowFailException because of `fail_on` or of `home`.
        """
        if not Path(self.home, "spark-submit.sh").exists():
            raise AirflowFailException(
                f"expected a checkout of Winnow, found no spark-submit.sh in {self.home}: set "
                "`home`. For the wheel, use a BashOperator: see docs/deploy.md"
            )
        with tempfile.TemporaryDirectory(prefix="winnow-") as directory:
            file = Path(self.result_file or f"{directory}/result.json")
            file.unlink(missing_ok=True)
            self.application_args = self.command(str(file))
            failure = None
            try:
                super().execute(context)
            except Exception as error:  # noqa: BLE001 - spark-submit's exit code may be 3
                failure = error
            if not file.exists():
                if failure is not None:
                    raise failure
                return None
            result = json.loads(file.read_text(encoding="utf-8"))
        totals = summary(result)
        context["ti"].xcom_push(key="result", value=totals)
        for line in left_lines(result):
            self.log.warning("%s", line)
        if not succeeds(result):
            raise failure or AirflowFailException(f"Winnow ended with {result['exit_code']}")
        if not succeeds(result, fail_on=self.fail_on):
            raise AirflowFailException(f"partitions were left alone: {totals['left_alone']}")
        return totals

    def command(self, result_file: str) -> list[str]:
        """Return the arguments of the application. Templates are already rendered."""
        ledger = ["--no-ledger"] if self.ledger is None else ["--ledger", self.ledger]
        topics = [word for topic in self.topics for word in ("--topics", topic)]
        more = ["--now", self.as_of, "--quiet", "--report", "none", "--result", result_file]
        return ["clean", *self.log_dirs, *topics, *more, *ledger, *self.arguments]
