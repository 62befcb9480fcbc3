"""docs/deploy.md is true: commands that can run here succeed, and the others become the command
that it shows.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.data import TOPIC_CONFIGS
from tests.session import verbs_use
from tests.spark.runs import add_partition, new_log_dir
from tests.unit.cli.results import partition, run_of
from winnow.cli.main import run as run_command
from winnow.metrics.gauges import gauges_of
from winnow.worker.package import SITE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found


def broker(path: Path, node: int) -> Path:
    new_log_dir(path)
    meta = path / "meta.properties"
    meta.write_text(re.sub(r"node\.id=\d+", f"node.id={node}", meta.read_text()))
    add_partition(path, "c-tomb-0", "c-tomb-0")
    return path


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two brokers' directories where commands are run, in this session."""
    verbs_use(spark, monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topic-configs.txt").write_bytes(TOPIC_CONFIGS.read_bytes())
    for node in (1, 2):
        broker(tmp_path / f"broker-{node}", node)
    return tmp_path


@pytest.mark.spark
@pytest.mark.usefixtures("here")
def test_commands_for_several_brokers_succeed(capsys: pytest.CaptureFixture[str]) -> None:
    (lines,) = [found.splitlines() for found in snippets("bash") if "--compare" in found]
    codes = [run_command(words(line)) for line in lines]
    assert codes == [0, 0]
    out = capsys.readouterr().out
    assert re.search(r"/c-tomb-0 +compacted", out)  # its directory is cut to fit the screen
    assert "The replicas of 1 partition agree." in out


def words(line: str) -> list[str]:
    command, *rest = shlex.split(line.replace("\\\n", ""))
    assert command.endswith("spark-submit.sh")
    return rest


@pytest.mark.spark
def test_metrics_command_writes_time_of_last_success(here: Path) -> None:
    (line,) = [found for found in snippets("bash") if "--metrics" in found]
    line = line.replace("/var/lib/kafka", "broker-1").replace("/var/lib/node_exporter/", "")
    assert run_command([*words(line), "--no-ledger", "--topic-configs", "topic-configs.txt"]) == 0
    told = {
        family.name for family in text_string_to_metric_families((here / "winnow.prom").read_text())
    }
    assert "winnow_last_success_unixtime" in told


def test_every_gauge_on_the_page_exists() -> None:
    known = {gauge.name for gauge in gauges_of(run_of(partition("t")), 0, started=0, ended=1)}
    on_page = set(re.findall(r"\bwinnow_[a-z_]+\b(?!\.py)", PAGE))
    assert on_page <= known
    assert known - on_page <= {
        "winnow_last_run_exit_code",
        "winnow_last_run_duration_seconds",
        "winnow_partitions_count",
    }


def test_cluster_commands_become_the_spark_submit_shown() -> None:
    dry = [found for found in snippets("bash") if found.startswith("WINNOW_DRY=1")]
    assert len(dry) == 5
    for line in dry:
        told = subprocess.run(
            ["bash", "-c", line],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ,
        ).stdout.splitlines()
        application = next(
            at for at, word in enumerate(told) if word.endswith("jobs/winnow_job.py")
        )
        assert told[0].endswith("spark-submit")
        assert told[application + 1 : application + 3] == ["clean", told[application + 2]]
        given = shlex.split(line.replace("\\\n", ""))[2:]
        assert all(word in told for word in given)
        assert told.index("--master") < application
        if "spark.executorEnv.PYTHONPATH" in line:
            assert "--archives" not in told
        elif "local[" not in line:
            assert "spark.executorEnv.PYTHONPATH=./winnow/site" in told
            assert told[told.index("--archives") + 1].endswith("/winnow.tar.gz#winnow")


def test_package_has_the_name_on_the_page() -> None:
    (line,) = [found for found in snippets("bash") if " package " in found]
    _, verb, option, name = shlex.split(line)
    assert (verb, option) == ("package", "--output")
    (image,) = snippets("dockerfile")
    assert f"ADD {name} /opt/winnow/\n" in image
    assert f"PYTHONPATH=/opt/winnow/{SITE} " in PAGE


def test_cron_line_passes_the_scheduled_time() -> None:
    (line,) = snippets("cron")
    stated = re.search(r"\$\(date [^)]*\)", line)
    assert stated is not None
    moment = subprocess.run(
        ["bash", "-c", f"echo {stated[0]}".replace("\\%", "%")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT03:00:00Z\n", moment)
