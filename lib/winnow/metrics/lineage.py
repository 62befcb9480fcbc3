"""OpenLineage events of a run: START, then COMPLETE or FAIL, with the rewritten topics as datasets.

An event is one JSON object that is posted or appended to a file. The client library would bring
eleven packages and three HTTP clients for that.
"""

from __future__ import annotations

import json
import socket
import urllib.request
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from winnow.basic_auth import split_off
from winnow.cleaning.result import PartitionResult, RunResult
from winnow.errors import WinnowError
from winnow.http_client import fetch
from winnow.storage.output_file import OutputFile
from winnow.version import VERSION
from winnow.words import redacted

NAMESPACE = "winnow"
PATH = "/api/v1/lineage"
"""The path on which Marquez and others listen, if the URL names none."""
TIMEOUT_S = 10
_PRODUCER = f"https://pypi.org/project/winnow-kafka/{VERSION}"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"


def parent_of(conf: Callable[[str, str], str | None]) -> dict[str, Any] | None:
    """Return the run that this one is part of, such as a task of Airflow. A scheduler puts it into
    Spark's settings, for example Airflow's SparkSubmitOperator. `conf` takes a key and a default.
    """
    namespace, name, run_id = (
        conf(f"spark.openlineage.{key}", "")
        for key in ("parentJobNamespace", "parentJobName", "parentRunId")
    )
    if not (namespace and name and run_id):
        return None
    return {"run": {"runId": run_id}, "job": {"namespace": namespace, "name": name}}


@dataclass(slots=True)
class Lineage:
    """The events of one run. `target` is a URL, or a file that gets one line per event."""

    target: str
    job: str
    parent: Mapping[str, Any] | None = None
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    host: str = field(default_factory=socket.gethostname)

    def start(self) -> None:
        """Send START. This method and the others raise WinnowError if an event can't be sent."""
        self._tell("START", {}, ())

    def complete(self, result: RunResult) -> None:
        """Send COMPLETE, also if partitions were left unchanged. Its facet `winnow` counts them."""
        figures = {
            "winnowRunId": result.run_id,
            "status": result.status,
            "exitCode": result.exit_code,
            "now": result.now,
            "partitions": len(result.partitions),
            "cleaned": sum(p.acts for p in result.partitions),
            "leftAlone": sum(p.failed for p in result.partitions),
        }
        facet = _facet("2-0-2/OpenLineage", "RunFacet", figures)
        self._tell("COMPLETE", {"winnow": facet}, result.partitions)

    def fail(self, message: str) -> None:
        told = {"message": message, "programmingLanguage": "PYTHON"}
        name = "ErrorMessageRunFacet"
        self._tell("FAIL", {"errorMessage": _facet(f"facets/1-0-1/{name}", name, told)}, ())

    def _tell(
        self, kind: str, facets: dict[str, Any], partitions: Sequence[PartitionResult]
    ) -> None:
        if self.parent is not None:
            name = "ParentRunFacet"
            facets = facets | {"parent": _facet(f"facets/1-1-0/{name}", name, self.parent)}
        datasets = self._datasets(partitions)
        event = {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "run": {"runId": self.run_id, "facets": facets},
            "job": {"namespace": NAMESPACE, "name": self.job},
            "inputs": [{"namespace": one["namespace"], "name": one["name"]} for one in datasets],
            "outputs": datasets,
            "producer": _PRODUCER,
            "schemaURL": _EVENT,
        }
        _send(self.target, redacted(json.dumps(event)))

    def _datasets(self, partitions: Sequence[PartitionResult]) -> list[dict[str, Any]]:
        """Return one dataset for each changed topic of each log directory."""
        touched: dict[tuple[str, str], list[PartitionResult]] = defaultdict(list)
        for p in partitions:
            if p.acts:
                touched[p.log_dir, p.topic].append(p)
        return [
            {
                "namespace": f"file://{self.host}",
                "name": f"{log_dir}/{topic}",
                "outputFacets": {"outputStatistics": _statistics(own)},
            }
            for (log_dir, topic), own in sorted(touched.items())
        ]


def _statistics(partitions: Sequence[PartitionResult]) -> dict[str, Any]:
    records = [p.records_after for p in partitions]
    rows = {} if None in records else {"rowCount": sum(count or 0 for count in records)}
    figures = rows | {
        "size": sum(p.bytes_after or 0 for p in partitions),
        "fileCount": sum(p.segments_after or 0 for p in partitions),
    }
    name = "OutputStatisticsOutputDatasetFacet"
    return _facet(f"facets/1-0-2/{name}", name, figures)


def _facet(file: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a facet with these values. OpenLineage defines its `name` in `file`."""
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/{file}.json#/$defs/{name}", **values}


def _send(target: str, event: str) -> None:
    if not target.startswith(("http://", "https://")):
        OutputFile(target, "--openlineage", "an OpenLineage event").append(f"{event}\n".encode())
        return
    url, headers = split_off(target)
    if not urlsplit(url).path.strip("/"):
        url = url.rstrip("/") + PATH
    headers["Content-Type"] = "application/json"
    try:
        request = urllib.request.Request(url, event.encode(), headers)  # noqa: S310 - http or https
        fetch(request, seconds=TIMEOUT_S, most=0)
    except OSError as error:
        raise WinnowError(
            "an OpenLineage event could not be sent",
            found=str(error),
            where=url,
            hint="Give --openlineage the URL of an OpenLineage server, or a file.",
        ) from error
