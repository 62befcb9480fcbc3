"""Runs on YARN, whose executors fetch and unpack the archive themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.standalone import SPARK_HOME
from tests.cluster.yarn import yarn
from tests.kill import log
from tests.kill.kills import RUN_SECONDS, Field, fresh, told
from tests.kill.processes import Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_yarn_run_leaves_bytes_of_local_run(
    field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = fresh(field)
    conf = {
        "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
        "spark.yarn.stagingDir": str(tmp_path / "staging"),
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
    }
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    with yarn(tmp_path / "yarn") as configuration, (field.scratch / "output").open("wb") as output:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(configuration))
        run = Run([*log.arguments(log_dir), "--master", "yarn", *options], output=output)
        try:
            code = run.wait(timeout_seconds=RUN_SECONDS)
        finally:
            if run.processes():
                run.kill_all()
        assert code == 0, told(field)
    log.assert_same(log_dir, field.undisturbed)
    assert not list((tmp_path / "yarn").rglob("home-*/.cache"))
    assert list((tmp_path / "yarn" / "local").rglob("site/winnow/worker/daemon.py"))
