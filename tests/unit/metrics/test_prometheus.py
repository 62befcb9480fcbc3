"""Gauges as Prometheus reads them, checked with its own parser."""

from __future__ import annotations

import base64
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.cli.results import NOW, idle, left_alone, partition, run_of
from tests.unit.metrics.listener import listening
from winnow.cleaning.result import ALL_CODES, Output, RecordsRemoved, RunResult, SegmentFate
from winnow.errors import UsageError, WinnowError
from winnow.metrics.gauges import gauges_of, gauges_of_end
from winnow.metrics.prometheus import tell_prometheus

STARTED, ENDED = 1_795_300_001_000, 1_795_300_003_500
COMPACTED = partition(
    "orders",
    duration_ms=1500,
    outputs=(Output(base_offset=0, bytes=30, checksum=1, sources=(0, 5)),),
    segments=(
        SegmentFate(0, 60, 1, "compacted"),
        SegmentFate(5, 60, 1, "compacted"),
        SegmentFate(9, 7, 1, "kept"),
    ),
    records_removed=RecordsRemoved(superseded=7, tombstones=2, aborted=0, markers=0, retention=0),
    max_compaction_lag_ms=1000,
    oldest_dirty_timestamp=NOW - 5000,
)
Samples = dict[tuple[str, tuple[str, ...]], float]


def parsed(text: str) -> Samples:
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.type == "gauge"
    }


def told(result: RunResult, path: Path) -> Samples:
    tell_prometheus(gauges_of(result, result.exit_code, started=STARTED, ended=ENDED), str(path))
    return parsed(path.read_text(encoding="utf-8"))


def test_gauges_include_kafkas_metrics_and_the_runs_results(tmp_path: Path) -> None:
    samples = told(run_of(COMPACTED, partition("orders", 1), idle("idle")), tmp_path / "w.prom")
    assert {name: value for (name, labels), value in samples.items() if not labels} == {
        "winnow_last_start_unixtime": STARTED / 1000,
        "winnow_last_run_unixtime": ENDED / 1000,
        "winnow_last_run_exit_code": 0,
        "winnow_last_run_duration_seconds": 2.5,
        "winnow_max_clean_time_seconds": 1.5,
        "winnow_cleaner_recopy_percent": 25,
        "winnow_max_compaction_delay_seconds": 4,
        "winnow_max_dirty_percent": 75,
        "winnow_failed_partitions_count": 0,
        "winnow_uncleanable_partitions_count": 0,
        "winnow_uncleanable_bytes": 0,
        "winnow_partitions_count": 3,
        "winnow_freed_bytes": 2 << 20,
        "winnow_last_success_unixtime": ENDED / 1000,
    }
    assert samples["winnow_topic_bytes_before", ("orders",)] == 4 << 20
    assert samples["winnow_topic_bytes_after", ("orders",)] == 2 << 20
    assert samples["winnow_topic_bytes_after", ("idle",)] == 2 << 20
    assert samples["winnow_topic_segments_after", ("orders",)] == 6
    assert samples["winnow_topic_records_removed", ("superseded", "orders")] == 7


def test_run_without_partitions_has_zero_gauges(tmp_path: Path) -> None:
    samples = told(run_of(), tmp_path / "w.prom")
    assert samples["winnow_partitions_count", ()] == 0
    assert samples["winnow_max_dirty_percent", ()] == 0


def test_run_that_leaves_partitions_alone_succeeds(tmp_path: Path) -> None:
    run = run_of(left_alone("t"), left_alone("u", error="damaged"))
    assert run.exit_code == 3
    samples = told(run, tmp_path / "w.prom")
    assert samples["winnow_last_success_unixtime", ()] == ENDED / 1000
    assert samples["winnow_last_run_exit_code", ()] == 3
    assert samples["winnow_left_alone_partitions", ("left-alone",)] == 2
    assert samples["winnow_left_alone_bytes", ("left-alone",)] == 4 << 20
    assert samples["winnow_freed_bytes", ()] == 0
    for name in ("winnow_left_alone_partitions", "winnow_left_alone_bytes"):
        zero = {labels[0] for (one, labels), value in samples.items() if one == name and not value}
        assert zero == {*ALL_CODES} - {"left-alone"}


def test_what_a_failed_run_does_not_know_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "w.prom"
    bad = replace(run_of(left_alone("t"), left_alone("u", error="damaged")), short_bytes=1)
    samples = told(bad, path)
    assert ("winnow_last_success_unixtime", ()) not in samples
    assert samples["winnow_uncleanable_partitions_count", ()] == 2
    assert samples["winnow_failed_partitions_count", ()] == 1
    assert samples["winnow_uncleanable_bytes", ()] == 4 << 20
    good = told(run_of(idle("t")), path)
    for _ in range(2):
        samples = told(bad, path)
        assert (
            samples["winnow_last_success_unixtime", ()] == good["winnow_last_success_unixtime", ()]
        )
    failed = gauges_of_end(1, succeeded=False, started=STARTED, ended=ENDED)
    tell_prometheus(failed, str(path))
    assert parsed(path.read_text()) == samples | {
        ("winnow_last_start_unixtime", ()): STARTED / 1000,
        ("winnow_last_run_unixtime", ()): ENDED / 1000,
        ("winnow_last_run_exit_code", ()): 1,
        ("winnow_last_run_duration_seconds", ()): 2.5,
        ("winnow_last_success_unixtime", ()): ENDED / 1000,
    }
    path.write_text("not { metrics")
    assert ("winnow_last_success_unixtime", ()) not in told(bad, path)
    assert path.stat().st_mode & 0o777 == 0o644


def test_illegal_topic_name_is_escaped(tmp_path: Path) -> None:
    samples = told(run_of(idle('a"b\n\\c')), tmp_path / "w.prom")
    assert samples["winnow_topic_bytes_before", ('a"b\n\\c',)] == 2 << 20


def test_metrics_are_posted_to_a_pushgateway() -> None:
    """POST replaces metrics of the same name and keeps the others, such as the last success."""
    with listening() as heard:
        tell_prometheus(gauges_of(run_of(COMPACTED), 0, started=STARTED, ended=ENDED), heard.url)
    ((method, path, body),) = heard.requests
    assert (method, path) == ("POST", f"/metrics/job/winnow/instance/{socket.gethostname()}")
    assert parsed(body.decode())["winnow_last_success_unixtime", ()] == ENDED / 1000


def test_user_and_password_of_the_url_are_sent_and_not_shown() -> None:
    gauges = gauges_of_end(1, succeeded=False, started=STARTED, ended=ENDED)
    with listening(status=500) as heard, pytest.raises(WinnowError) as refused:
        tell_prometheus(gauges, heard.url.replace("//", "//winnow:p%40ss@"))
    assert heard.authorized == ["Basic " + base64.b64encode(b"winnow:p@ss").decode()]
    assert "p%40ss" not in str(refused.value)


def test_unreachable_target_is_an_error(tmp_path: Path) -> None:
    gauges = gauges_of(replace(run_of(), notes=()), 0, started=STARTED, ended=ENDED)
    with listening(status=500) as heard, pytest.raises(WinnowError, match="could not be written"):
        tell_prometheus(gauges, heard.url)
    with pytest.raises(WinnowError, match="could not be written"):
        tell_prometheus(gauges, heard.url)
    with pytest.raises(WinnowError, match="could not be written"):
        tell_prometheus(gauges, str(tmp_path / "missing" / "w.prom"))
    with pytest.raises(UsageError, match=r"ends in \.prom"):
        tell_prometheus(gauges, str(tmp_path / "w.txt"))


def test_missing_library_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'prometheus-client"):
        tell_prometheus((), "w.prom")
