"""Lineage events: what OpenLineage's RunEvent requires, posted to a real listener or appended to a
file.
"""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.results import idle, left_alone, partition, run_of
from tests.unit.metrics.listener import listening
from winnow.errors import WinnowError
from winnow.metrics.lineage import Lineage, parent_of


def check(event: dict[str, Any]) -> None:
    assert {
        "eventType",
        "eventTime",
        "run",
        "job",
        "inputs",
        "outputs",
        "producer",
        "schemaURL",
    } == set(event)
    uuid.UUID(event["run"]["runId"])
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    facets = [*event["run"]["facets"].values()]
    facets += [facet for one in event["outputs"] for facet in one["outputFacets"].values()]
    for facet in facets:
        assert facet["_producer"].startswith("https://")
        assert facet["_schemaURL"].startswith("https://openlineage.io/spec/")


def test_start_and_complete_events_share_one_run(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lineage = Lineage(str(path), job="winnow.clean", host="h")
    lineage.start()
    done = [partition("orders", n, records_after=5) for n in range(2)]
    lineage.complete(run_of(*done, partition("unknown"), idle("idle"), left_alone("left")))
    start, end = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    for event in (start, end):
        check(event)
        assert event["job"] == {"namespace": "winnow", "name": "winnow.clean"}
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["inputs"] == [
        {"namespace": "file://h", "name": f"/kafka/{topic}"} for topic in ("orders", "unknown")
    ]
    orders, unknown = (one["outputFacets"]["outputStatistics"] for one in end["outputs"])
    assert (orders["rowCount"], orders["size"], orders["fileCount"]) == (10, 2 << 20, 6)
    assert "rowCount" not in unknown
    facet = end["run"]["facets"]["winnow"]
    assert (facet["partitions"], facet["cleaned"], facet["leftAlone"], facet["exitCode"]) == (
        5,
        3,
        1,
        3,
    )


def test_fail_event_has_the_error_and_the_parent_task() -> None:
    conf = {
        "spark.openlineage.parentJobNamespace": "default",
        "spark.openlineage.parentJobName": "dag.task",
        "spark.openlineage.parentRunId": "01941f29-7c00-7087-8940-40e5d76ceb0f",
    }
    parent = parent_of(lambda key, default: conf.get(key, default))  # noqa: PLW0108 - a get of two arguments
    assert parent is not None
    assert parent_of(lambda _, default: default) is None
    with listening() as heard:
        Lineage(heard.url, job="winnow.clean", parent=parent).fail("in use")
        Lineage(f"{heard.url}/elsewhere", job="winnow.clean").start()
    (_, path, body), (_, other, _) = heard.requests
    assert (path, other) == ("/api/v1/lineage", "/elsewhere")
    event = json.loads(body)
    check(event)
    assert event["eventType"] == "FAIL"
    assert event["run"]["facets"]["errorMessage"]["message"] == "in use"
    told = event["run"]["facets"]["parent"]
    assert told["job"] == {"namespace": "default", "name": "dag.task"}
    assert told["run"] == {"runId": "01941f29-7c00-7087-8940-40e5d76ceb0f"}


def test_user_and_password_of_the_url_are_sent() -> None:
    with listening() as heard:
        Lineage(heard.url.replace("//", "//winnow:secret@"), job="winnow.clean").start()
    assert [path for _, path, _ in heard.requests] == ["/api/v1/lineage"]
    assert heard.authorized == ["Basic d2lubm93OnNlY3JldA=="]


def test_unreachable_listener_is_an_error() -> None:
    with (
        listening(status=500) as heard,
        pytest.raises(WinnowError, match="event could not be sent"),
    ):
        Lineage(heard.url, job="winnow.clean").start()
