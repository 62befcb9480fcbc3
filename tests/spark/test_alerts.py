"""The example alerts, judged by Prometheus's own `promtool` with the metrics of real runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.data import TOPIC_CONFIGS
from tests.lock_holder import broker
from tests.pages import ROOT
from tests.session import verbs_use
from tests.spark.damage import flipped_bit
from tests.spark.runs import NOW, add_partition, new_log_dir
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.cli.outlets import Outlets
from winnow.clock import now_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        shutil.which("promtool") is None, reason="promtool is in the Debian package prometheus"
    ),
]
ALERTS = ROOT / "examples" / "prometheus" / "winnow-alerts.yml"
DAY = 86_400
EVERY = 3600
"""Seconds between two samples."""
HOUR_MS = 3_600_000
Night = tuple[int, str]
"""When a run ended, in s, and the metrics it wrote."""


class Host:
    """A log directory that is cleaned every night, and its metrics."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log_dir = new_log_dir(root / "d")
        self.file = root / "winnow.prom"
        add_partition(self.log_dir, "c-tomb-0", "c-tomb-0")

    def clean(self, *more: str) -> tuple[int, str]:
        """Return the exit code and the metrics."""
        given = ["--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW), "--no-ledger"]
        given += ["--report", "none", "--quiet", "--metrics", str(self.file)]
        code = run(["clean", str(self.log_dir), *given, *more])
        return code, self.file.read_text() if self.file.exists() else ""

    def doctor(self, *more: str, hours: float = 0) -> tuple[int, str]:
        """The same of `doctor`, so long after now by the clock of the machine."""
        now = str(now_ms() + int(hours * HOUR_MS))
        given = ["--topic-configs", str(TOPIC_CONFIGS), "--now", now, "--quiet", "--summary"]
        given += ["--detailed-exitcode", "--metrics", str(self.file)]
        return run(["doctor", str(self.log_dir), *given, *more]), self.file.read_text()


@pytest.fixture
def host(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    verbs_use(spark, monkeypatch)
    return Host(tmp_path)


def samples(text: str) -> dict[str, float]:
    """By the series' name with its labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = {**one.labels, "instance": "broker-1", "job": "node"}
            inside = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
            found[f"{one.name}{{{inside}}}"] = one.value
    return found


def firing(place: Path, nights: list[Night], at: int) -> set[str]:
    """Let promtool play the nights, and return the alerts that fire `at` this second.

    promtool's clock begins at 0. So the times in the metrics are moved: to that of their night, and
    those of an earlier night to the time of that one.
    """
    times: dict[float, float] = {}
    steps: list[dict[str, float]] = [{} for _ in range(at // EVERY + 1)]
    for begin, text in nights:
        values = samples(text)
        for own in ("last_run_unixtime", "last_start_unixtime"):
            for value in (v for name, v in values.items() if own in name):
                times.setdefault(value, begin)
        moved = {
            name: times.get(value, value) if "_unixtime" in name else value
            for name, value in values.items()
        }
        for step in range(begin // EVERY, len(steps)):
            steps[step] = moved
    series = sorted({name for step in steps for name in step})
    told: dict[str, Any] = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": f"{EVERY}s",
        "tests": [
            {
                "interval": f"{EVERY}s",
                "input_series": [
                    {
                        "series": name,
                        "values": " ".join(
                            repr(step[name]) if name in step else "_" for step in steps
                        ),
                    }
                    for name in series
                ],
                "alert_rule_test": [
                    {"eval_time": f"{at}s", "alertname": alert, "exp_alerts": []}
                    for alert in alerts()
                ],
            }
        ],
    }
    file = place / "test.json"  # JSON is YAML
    file.write_text(json.dumps(told))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_COLOR": "1"},
    )
    shown = done.stdout + done.stderr
    found = {alert for alert in alerts() if f"alertname: {alert}," in shown}
    assert ("SUCCESS" in shown, "FAILED" in shown) == (not found, bool(found)), shown
    return found


def alerts() -> list[str]:
    lines = ALERTS.read_text().splitlines()
    return [line.split()[-1] for line in lines if line.strip().startswith("- alert:")]


def test_promtool_accepts_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True, capture_output=True)
    assert len(alerts()) == 14


def test_no_alert_after_nights_that_left_usual_partitions_alone(host: Host) -> None:
    """A tiered topic is left alone every night, with exit code 3."""
    add_partition(host.log_dir, "d-size-0", "d-size-0")
    tiered = ("--topic-set", "d-size:remote.storage.enable=true", "--yes")
    nights = []
    for night in range(3):
        code, text = host.clean(*tiered)
        assert code == 3
        assert 'winnow_left_alone_partitions{code="tiered"} 1.0' in text
        nights.append((EVERY + night * DAY, text))
    assert firing(host.root, nights, 3 * DAY) == set()
    assert firing(host.root, nights, 10 * DAY) == set()
    assert firing(host.root, nights, 11 * DAY) == {"WinnowHasNotSucceeded"}


def test_run_that_fails_fires_at_once_and_its_age_later(host: Host) -> None:
    code, good = host.clean()
    assert code == 0
    code, bad = host.clean("--free-at-least", "1TiB")
    assert code == 6
    nights = [(EVERY, good), (DAY, bad)]
    assert firing(host.root, nights[:1], DAY) == set()
    assert "WinnowFailed" in firing(host.root, nights, 2 * DAY)
    assert "WinnowHasNotSucceeded" not in firing(host.root, nights, 2 * DAY)
    assert {"WinnowFailed", "WinnowHasNotSucceeded"} <= firing(host.root, nights, 9 * DAY)
    only_bad = bad.replace(good[good.index("# HELP winnow_last_success") :].splitlines()[2], "")
    assert "WinnowHasNotSucceeded" in firing(host.root, [(EVERY, only_bad)], DAY)


def test_killed_run_fires_after_half_a_day(host: Host) -> None:
    _, good = host.clean()
    Outlets(CommandLine(metrics=str(host.file))).began()  # as before SIGKILL
    nights = [(EVERY, good), (DAY, host.file.read_text())]
    assert firing(host.root, nights, DAY + DAY // 4) == set()
    assert firing(host.root, nights, 2 * DAY) == {"WinnowDidNotEnd"}
    _, good = host.clean()
    assert firing(host.root, [*nights, (2 * DAY, good)], 3 * DAY) == set()


def test_damage_and_unknown_settings_fire(host: Host) -> None:
    flipped_bit(add_partition(host.log_dir, "c-none-0", "c-none-0"))
    code, text = host.clean()
    assert code == 3
    assert firing(host.root, [(EVERY, text)], DAY) == {"WinnowFoundDamage"}
    add_partition(host.log_dir, "x-unknown-0", "c-none-0")
    _, text = host.clean()
    expected = {"WinnowFoundDamage", "WinnowIsNotConfigured"}
    assert firing(host.root, [(EVERY, text)], DAY) == expected


def test_unfinished_nights_fire_after_three_days(host: Host) -> None:
    code, text = host.clean("--max-extra-space", "1B")
    assert code == 6
    assert 'winnow_left_alone_partitions{code="no-space"} 1.0' in text
    assert "WinnowDoesNotFinish" not in firing(host.root, [(EVERY, text)], 2 * DAY)
    assert "WinnowDoesNotFinish" in firing(host.root, [(EVERY, text)], 4 * DAY)


def test_doctor_alerts_on_work_that_a_running_broker_has_left_for_hours(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker that was stopped for days has old files, and no fault."""
    add_partition(host.log_dir, "d-time-0", "d-time-0")
    checkpoint = host.log_dir / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n1\nc-tomb 0 0\n")
    days_ago = time.time() - 3 * DAY
    os.utime(checkpoint, (days_ago, days_ago))
    with broker(host.log_dir):
        code, young = host.doctor(hours=0.5)
        assert (code, capsys.readouterr().out.count("nothing needs attention")) == (0, 1)
        code, old = host.doctor(hours=8)
        assert code == 10
    shown = capsys.readouterr().out
    assert "the cleaner seems dead: 1 partition is due" in shown
    assert "nobody deletes" in shown
    runs = [(EVERY, young)]
    assert firing(host.root, runs, EVERY) == set()
    assert firing(host.root, runs, 8 * EVERY) == set()
    runs += [(8 * EVERY, old)]
    assert firing(host.root, runs, 8 * EVERY) == set(), "one run is not enough"
    assert firing(host.root, runs, 9 * EVERY) == {"KafkaCleanerIsDead", "KafkaNobodyDeletes"}
    assert "WinnowDoctorIsBlind" in firing(host.root, runs, 2 * DAY)
