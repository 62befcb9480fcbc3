"""The result file and the metrics of a run that was killed do not look like a success."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kill import log
from tests.kill.kills import wait_for
from tests.kill.processes import Run


def test_result_of_a_killed_run_says_running_and_names_its_process(tmp_path: Path) -> None:
    log_dir, result, metrics = tmp_path / "log-dir", tmp_path / "last.json", tmp_path / "w.prom"
    log.make(log_dir)
    result.write_text('{"status": "done", "exit_code": 0}')
    metrics.write_text("winnow_last_run_exit_code 0\nwinnow_last_run_unixtime 5\n")
    outputs = ["--result", str(result), "--metrics", str(metrics)]
    with (tmp_path / "output").open("wb") as output:
        run = Run([*log.arguments(log_dir), *outputs], output=output)
        wait_for(run, log_dir, "staging")
        (driver,) = run.drivers()
        run.kill_all()
        run.wait_until_gone()
    told: dict[str, Any] = json.loads(result.read_text())
    assert (told["status"], told["exit_code"], told["pid"]) == ("running", None, driver.pid)
    samples = dict(
        line.split() for line in metrics.read_text().splitlines() if not line.startswith("#")
    )
    assert float(samples["winnow_last_start_unixtime"]) == told["started_at"] / 1000 > 5
    assert float(samples["winnow_last_run_unixtime"]) == 5
