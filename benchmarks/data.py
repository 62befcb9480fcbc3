"""Big log directories to measure with, written by Kafka's own log classes (Bulk.java), kept in `.cache/benchmarks/`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.jars import CACHE, HERE, installation, java

BULK = "org.apache.kafka.storage.internals.log.Bulk"
SEGMENT_BYTES = 256 << 20
KEY_BYTES = 16
DATA = CACHE / "benchmarks"
JAVA_SOURCES = HERE / "java"
TOPIC = "bulk"
NOW = 1_795_300_000_000

META = "version=1\nnode.id=1\ncluster.id=V2lubm93T3JhY2xlMDAwMQ\ndirectory.id=d2lubm93LWJlbmNobWFyaw\n"
TOPIC_CONFIGS = f"{TOPIC} cleanup.policy=compact\n{TOPIC} segment.bytes={SEGMENT_BYTES}\n"


@dataclass(frozen=True, slots=True)
class Case:
    """Half of the records are superseded, spread evenly: nearly every batch must be rebuilt, the worst case."""

    name: str
    value_bytes: int
    codec: str = "none"
    partitions: int = 1


CASES = (
    Case("one-100B", value_bytes=100),
    Case("one-1KB", value_bytes=1024),
    Case("four-100B", value_bytes=100, partitions=4),
    Case("lz4-100B", value_bytes=100, codec="lz4"),
    Case("zstd-1KB", value_bytes=1024, codec="zstd"),
)


@dataclass(frozen=True, slots=True)
class DataSet:
    case: Case
    log_dir: Path
    topic_configs: Path
    records: int
    log_bytes: int

    @property
    def partitions(self) -> list[Path]:
        return [self.log_dir / f"{TOPIC}-{number}" for number in range(self.case.partitions)]


def data_set(case: Case, raw_bytes: int) -> DataSet:
    """The log directory of a case, made on first use. `raw_bytes`: keys and values, all partitions, not compressed."""
    root = DATA / f"{case.name}-{raw_bytes}-{_bulk_version()}"
    if not root.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=DATA))
        try:
            _make(case, raw_bytes, work)
            work.rename(root)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    made = json.loads((root / "made.json").read_text())
    return DataSet(
        case=case,
        log_dir=root / "log-dir",
        topic_configs=root / "topic-configs.txt",
        records=sum(partition["records"] for partition in made),
        log_bytes=sum(partition["bytes_on_disk"] for partition in made),
    )


def fresh_copy(data: DataSet, target: Path) -> Path:
    """To be cleaned: segments are hard links, since neither Kafka nor Winnow writes into them; all else is copied."""
    target.mkdir(parents=True)
    for file in data.log_dir.iterdir():
        if file.is_file():
            shutil.copy2(file, target / file.name)
    for source in data.partitions:
        (target / source.name).mkdir()
        for file in source.iterdir():
            sealed = file.suffix == ".log" and file.stat().st_size > 0
            (os.link if sealed else shutil.copy2)(file, target / source.name / file.name)
    return target


def warm_page_cache(data: DataSet) -> None:
    for partition in data.partitions:
        for file in partition.iterdir():
            with file.open("rb", buffering=0) as reader:
                while reader.read(8 << 20):
                    pass


def _bulk_version() -> str:
    """Another generator, other data."""
    return hashlib.sha256((JAVA_SOURCES / "Bulk.java").read_bytes()).hexdigest()[:8]


def _make(case: Case, raw_bytes: int, root: Path) -> None:
    log_dir = root / "log-dir"
    log_dir.mkdir()
    made = [
        _bulk(
            log_dir / f"{TOPIC}-{number}",
            *("--bytes", raw_bytes // case.partitions, "--value", case.value_bytes, "--codec", case.codec),
            *("--key", KEY_BYTES, "--segment", SEGMENT_BYTES, "--seed", 100 + number, "--roll", "true"),
        )
        for number in range(case.partitions)
    ]
    (root / "made.json").write_text(json.dumps(made))
    (root / "topic-configs.txt").write_text(TOPIC_CONFIGS)
    (log_dir / "meta.properties").write_text(META)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    ends = "".join(f"{TOPIC} {number} {partition['records']}\n" for number, partition in enumerate(made))
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (log_dir / name).write_text(f"0\n{len(made)}\n{ends}")
    for name in ("log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        (log_dir / name).write_text("0\n0\n")


def _bulk(directory: Path, *arguments: str | int) -> dict[str, int]:
    command = [java(), "-Xmx1g", "-cp", installation().class_path, BULK, "--dir", str(directory), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    made: dict[str, int] = json.loads(done.stdout)
    return made
