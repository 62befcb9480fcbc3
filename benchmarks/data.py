"""Big log directories to measure with, made by the log writer, kept in `.cache/benchmarks/`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.shapes import fill
from tests.kafka.judge.jars import CACHE
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from winnow.state import TopicPartition

HERE = Path(__file__).resolve().parent
SEGMENT_BYTES = 256 << 20
DATA = CACHE / "benchmarks"
NOW = 1_795_300_000_000
_PIECE_BYTES = 8 << 20
_MOST_TAKEN = 2 << 30
_DAY_MS = 86_400_000
_WRITTEN = NOW - _DAY_MS


@dataclass(frozen=True, slots=True)
class DataSet:
    case: Case
    log_dir: Path
    topic_configs: Path
    records: int
    log_bytes: int

    @property
    def partitions(self) -> list[Path]:
        return [
            self.log_dir / f"{self.case.topic}-{number}" for number in range(self.case.partitions)
        ]


def data_set(case: Case, raw_bytes: int) -> DataSet:
    """The log directory of a case, made on first use. `raw_bytes`: keys and values, all partitions,
    not compressed.
    """
    root = _root(case, raw_bytes)
    if not root.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=DATA))
        try:
            make(case, raw_bytes, work)
            work.rename(root)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return made_in(case, root)


def remove_data(case: Case, raw_bytes: int) -> None:
    shutil.rmtree(_root(case, raw_bytes), ignore_errors=True)


def _root(case: Case, raw_bytes: int) -> Path:
    return DATA / f"{case.name}-{raw_bytes}-{_version()}"


def made_in(case: Case, root: Path) -> DataSet:
    """What `make` left there."""
    log_dir = root / "log-dir"
    return DataSet(
        case=case,
        log_dir=log_dir,
        topic_configs=root / "topic-configs.txt",
        records=json.loads((root / "made.json").read_text())["records"],
        log_bytes=sum(path.stat().st_size for path in log_dir.glob("*/*.log")),
    )


def fresh_copy(data: DataSet, target: Path) -> Path:
    """To be cleaned: segments are hard links, since neither Kafka nor Winnow writes into them; all
    else is copied.
    """
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
                while reader.read(_PIECE_BYTES):
                    pass


def take_memory(size: int) -> None:
    """Fills so much of the page cache, 2 GiB at most, and frees it again, before somebody does
    whose time is taken.

    A virtual machine gives free memory back to its host. Who writes to it again waits: 3 s for each
    GiB were seen.
    """
    piece = bytes(_PIECE_BYTES)
    with tempfile.TemporaryFile(dir=DATA, buffering=0) as file:
        for _ in range(0, min(size, _MOST_TAKEN), _PIECE_BYTES):
            file.write(piece)


def make(case: Case, raw_bytes: int, root: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
    """Fills `root`, a directory that is there."""
    records = 0
    with LogDirWriter(root / "log-dir", clock=lambda: _WRITTEN) as log_dir:
        for number in range(case.partitions):
            log = log_dir.partition(case.topic, number, SegmentConfig(segment_bytes=segment_bytes))
            first_dirty = fill(log, case, raw_bytes // case.partitions, seed=100 + number)
            if first_dirty is not None:
                log_dir.cleaner_offsets[TopicPartition(case.topic, number)] = first_dirty
            records += log.log_end_offset
    (root / "made.json").write_text(json.dumps({"records": records}))
    # What is dirty is older than the lag allows, so that no ratio is asked for.
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": segment_bytes,
        "max.compaction.lag.ms": _DAY_MS,
    }
    (root / "topic-configs.txt").write_text(
        "".join(f"{case.topic} {key}={value}\n" for key, value in settings.items())
    )


def _version() -> str:
    """Another generator, other data."""
    sources = [
        HERE / f"{name}.py" for name in ("batch_kernels", "batches", "cases", "data", "shapes")
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]
