"""Compare every record and batch of the recorded log directory with the dump of Kafka's own
classes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fixtures.data import expected, unpacked
from tests.unit.kafka_log.reading import rows

CLEAN = unpacked("before-clean") / "clean"
TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def text(data: bytes | None) -> str | None:
    if data is None or len(data) <= 64:
        return None if data is None else data.hex()
    return f"sha256:{hashlib.sha256(data).hexdigest()[:32]}:{len(data)}"


def ms(moment: datetime | None) -> int | None:
    return (
        None
        if moment is None
        else round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    )


def as_dumped(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "segment": int(row["segment"].removesuffix(".log")),
        "pos": row["position"],
        "size": row["batchSize"],
        "base": row["baseOffset"],
        "last": row["batchLastOffset"],
        "magic": row["magic"],
        "codec": row["codec"],
        "tstype": row["timestampType"],
        "txn": row["isTransactional"],
        "control": row["isControl"],
        "pid": row["producerId"],
        "epoch": row["producerEpoch"],
        "leaderEpoch": row["partitionLeaderEpoch"],
        "deleteHorizon": ms(row["deleteHorizon"]),
        "o": row["offset"],
        "ts": ms(row["timestamp"]),
        "seq": row["sequence"],
        "k": text(row["key"]),
        "v": text(row["value"]),
        "h": [[header["key"], text(header["value"])] for header in row["headers"] or ()],
    }


def dumped(lines: list[str]) -> Iterator[dict[str, Any]]:
    """Return each record, with what Kafka says of its batch."""
    segment, batch = 0, {}
    for line in map(json.loads, lines):
        kind = line.pop("t")
        if kind == "segment":
            segment = line["base"]
        elif kind == "batch":
            batch = {key: line[key] for key in BATCH_KEYS} | {
                "tstype": TYPES[line["tstype"]],
                "segment": segment,
            }
        elif kind == "rec":
            yield batch | line


BATCH_KEYS = (
    *(
        "pos",
        "size",
        "base",
        "last",
        "magic",
        "codec",
        "txn",
        "control",
        "pid",
        "epoch",
        "leaderEpoch",
    ),
    "deleteHorizon",
)


KAFKAS = expected("untouched")


@pytest.mark.parametrize("name", KAFKAS)
def test_every_record_is_read_as_kafka_reads_it(name: str) -> None:
    wanted = list(dumped(KAFKAS[name]))
    # A partition directory read alone takes its log start offset from the log directory around
    # it.
    start = 1234 if name == "d-start-0" else 0
    found = rows(CLEAN / name, includeControl=True)
    assert [as_dumped(row) for row in found] == [
        record for record in wanted if record["o"] >= start
    ]
    topic, _, partition = name.rpartition("-")
    assert {(row["topic"], row["partition"]) for row in found} == {(topic, int(partition))}
    assert {(row["crcOk"], row["problem"]) for row in found} == {(True, None)}
