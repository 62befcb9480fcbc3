"""What else runs on a cluster whose hosts have nothing of Winnow installed: typed reads, and an
erasure with its certificate and the check of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.cluster.standalone import Cluster, two_hosts
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from winnow.wire.plain import Record

pytestmark = pytest.mark.spark

START = 1_790_000_000_000
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
}
RECORDS = 400
"""Of each topic. Each segment has fewer."""

SCRIPT = """
import json
import os
import sys
import winnow
from pyspark.sql import SparkSession
from winnow import api

path, schema, place = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
for topic, value in (
    ("json", winnow.Json("id bigint, city string")),
    ("json", "json"),
    ("avro", winnow.Avro(schema=schema)),
):
    frame = winnow.read(spark, path, topics=topic, key="string", value=value)
    (row,) = frame.selectExpr("count(*)", "sum(value.id)", "max(value.city)").collect()
    print(json.dumps([topic, *row]))
erased = api.erase(spark, [path], keys=[b"k3", b"k7"], certificate=place)
print(json.dumps([erased.certificate, erased.proven, erased.keys_found]))
checked = api.verify_key_hashes(spark, [path], key_hash=erased.certificate)
print(json.dumps([checked.found, checked.problems]))
parents = spark.sparkContext.parallelize(range(4), 4).map(lambda _: os.getppid()).collect()
print(json.dumps(os.getpid() in parents))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with two_hosts(tmp_path_factory.mktemp("hosts")) as running:
        yield running


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Topics `json` and `avro`, with the keys k0 to k9 in several segments."""
    fastavro = pytest.importorskip("fastavro", reason="the extra `avro` is not installed")

    def as_avro(order: dict[str, object]) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), order)
        return out.getvalue()

    path = tmp_path / "kafka"
    with LogDirWriter(path, clock=lambda: START) as writer:
        for topic, encoded in (("json", lambda o: json.dumps(o).encode()), ("avro", as_avro)):
            partition = writer.partition(topic, 0, SegmentConfig(segment_bytes=4096))
            for n in range(0, RECORDS, 10):
                orders = [{"id": n + i, "city": f"Köln {n + i:03}"} for i in range(10)]
                partition.append_records(
                    [
                        Record(n + i, START, b"k%d" % i, encoded(order))
                        for i, order in enumerate(orders)
                    ]
                )
    return path


def check(certificate: str, found: int) -> None:
    """The records that the erasure did not reach are in active segments, and are found."""
    content = json.loads(Path(certificate).read_text(encoding="utf-8"))
    left = sum(p["left_active"] for p in content["partitions"])
    assert content["records_erased"] + left == 2 * 2 * RECORDS // 10
    assert content["records_erased"] > left == found > 0


@pytest.mark.slow
def test_typed_reads_and_an_erasure_with_its_check_run_on_executors(
    cluster: Cluster, log_dir: Path, tmp_path: Path
) -> None:
    script, schema = tmp_path / "script.py", tmp_path / "order.avsc"
    script.write_text(SCRIPT, encoding="utf-8")
    schema.write_text(json.dumps(ORDER), encoding="utf-8")
    *read, erased, checked, here = map(
        json.loads, cluster.submit(script, log_dir, schema, tmp_path / "place").splitlines()
    )
    last = [RECORDS, sum(range(RECORDS)), f"Köln {RECORDS - 1}"]
    assert read == [["json", *last], ["json", *last], ["avro", *last]]
    certificate, *proven = erased
    assert (proven, checked[1], here) == ([True, 2], 0, False)
    check(certificate, found=checked[0])


@pytest.mark.slow
def test_commands_that_erase_and_check_run_on_executors(
    cluster: Cluster, log_dir: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("k3\nk7\n", encoding="utf-8")
    given = ("--keys", keys, "--certificate", tmp_path / "place", "--no-ledger", "--json")
    erased = json.loads(cluster.submit("erase", log_dir, *given, exit_code=3))
    assert (erased["keys_found"], erased["proven"], erased["status"]) == (2, True, "partial")
    words = ("verify", log_dir, "--key-hash", erased["certificate"], "--json")
    checked = json.loads(cluster.submit(*words, exit_code=4))
    check(erased["certificate"], found=checked["found"])
