"""Runs of Winnow with every effect on the log directory recorded, and what any crash of one must
leave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.replay import CrashPoint, Effect, RecordingStorage, crash_states, replay
from tests.fixtures.data import copy_file, copy_tree
from tests.kafka.cleaner.runs import CHECKPOINTS, write_checkpoint
from tests.twins.walk import decode_batch
from winnow.cleaning.clean import clean as clean_partitions
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.indexes.txnindex import decode_txn_index
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.names import CLEANER_CHECKPOINT, SNAPSHOT, STAGING_PREFIX, TXNINDEX
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings, parse_topic_set
from winnow.policy.versions import asked_version
from winnow.runtime.stop import Stop
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places
from winnow.wire.batch import CONTROL, TRANSACTIONAL
from winnow.wire.buffers import Rows
from winnow.wire.control import ControlType, control_type
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Case:
    """One partition, one run over it. `config` are topic settings by Kafka's names."""

    name: str
    partition: str
    now: int
    config: Mapping[str, str | int]
    keep: bool = False
    max_extra_space: int | None = None
    kafka_version: str | None = None

    @property
    def topic(self) -> str:
        return self.partition.rpartition("-")[0]

    @property
    def compacts(self) -> bool:
        return "compact" in str(self.config["cleanup.policy"])

    @property
    def deletes(self) -> bool:
        return "delete" in str(self.config["cleanup.policy"])

    @property
    def settings(self) -> Settings:
        return Settings(
            topic_sets=tuple(
                parse_topic_set(f"{self.topic}:{k}={v}") for k, v in self.config.items()
            ),
            kafka=asked_version(self.kafka_version),
        )


@dataclass(frozen=True)
class CrashRun:
    """A run that was not disturbed, and all that is needed to stop it anywhere."""

    case: Case
    before: Path
    """The log directory before the run."""
    staged: Path
    """When all output is staged and the first of `effects` is about to happen."""
    effects: Sequence[Effect]
    after: Path
    result: PartitionResult

    def crashes(self, scratch: Path, *, out_of_order: bool, every: int = 1) -> Iterator[CrashPoint]:
        """Of the staging, then of the commit (`crash_states`)."""
        if not out_of_order:
            yield from self._staging_crashes(scratch / "staging")
        yield from crash_states(
            self.staged, scratch / "commit", self.effects, out_of_order=out_of_order, every=every
        )

    def before_retention(self, scratch: Path) -> list[Record]:
        """The records when the compaction is done: what the run keeps and what its retention takes
        after that.
        """
        if not self.case.compacts:
            return read_log(self.before / self.case.partition).records
        moved = [
            n for n, effect in enumerate(self.effects) if effect.paths[-1] == CLEANER_CHECKPOINT
        ]
        root = scratch / "compacted"
        copy_tree(self.staged, root)
        replay(self.effects[: moved[0] + 1], root)
        return read_log(root / self.case.partition).records

    def _staging_crashes(self, scratch: Path) -> Iterator[CrashPoint]:
        """Staged files appear one after the other, each empty and half at first. Tasks write them,
        not the driver.
        """
        directory = self.staged / self.case.partition
        files = [p.relative_to(self.staged) for p in sorted(directory.glob(f"{STAGING_PREFIX}*/*"))]
        for number, last in enumerate(files):
            size = (self.staged / last).stat().st_size
            for length in sorted({0, size // 2, size}):
                root = scratch / f"{number}-{length}"
                root.parent.mkdir(exist_ok=True, parents=True)
                copy_tree(self.staged, root)
                for later in files[number + 1 :]:
                    (root / later).unlink()
                with (root / last).open("r+b") as file:
                    file.truncate(length)
                yield CrashPoint(root, f"staging {last} at {length} of {size} bytes", in_order=True)


def run_winnow(
    spark: SparkSession,
    log_dir: Path | str,
    case: Case,
    *,
    storage: Storage | None = None,
    stop: Stop | None = None,
) -> list[PartitionResult]:
    """What `winnow.api.clean` does, with a storage of the test's own under the driver's hands."""
    request = Request(
        settings=case.settings,
        topics=(case.topic,),
        now=case.now,
        only=None,
        touch=True,
        run_id="run",
        keep_replaced=case.keep,
        max_extra_space=case.max_extra_space,
        storage=storage or Places(),
        stop=stop or Stop(),
    )
    with lock_log_dir(str(log_dir)):
        prepared = plan_partitions(
            spark.sparkContext, survey_log_dirs(Places(), [str(log_dir)]), request
        )
        return clean_partitions(spark.sparkContext, prepared, request).partitions


def gather(case: Case, before: Path, points: Iterable[CrashPoint], log_dir: Path) -> dict[str, str]:
    """Makes a log directory of states after a crash, each a partition of it; the label of each by
    its name.
    """
    log_dir.mkdir()
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        copy_file(before / name, log_dir / name)
    labels: dict[str, str] = {}
    entries: dict[str, dict[str, int]] = {name: {} for name in CHECKPOINTS}
    for number, point in enumerate(points):
        partition = f"{case.topic}-{number}"
        labels[partition] = point.label
        copy_tree(point.root / case.partition, log_dir / partition)
        for name, offsets in entries.items():
            offset = checkpoint_entry(point.root, name, case.partition)
            if offset is not None:
                offsets[partition] = offset
    for name, offsets in entries.items():
        write_checkpoint(log_dir / name, offsets)
    return labels


def content_of(directory: Path, *, snapshots: bool = True) -> dict[str, bytes]:
    """All that is in a partition directory, where nothing but files may be."""
    assert not [path for path in directory.iterdir() if path.is_dir()]
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if snapshots or path.suffix != SNAPSHOT
    }


def record_run(spark: SparkSession, before: Path, case: Case, scratch: Path) -> CrashRun:
    """Runs Winnow on a copy of `before`."""
    after, staged = scratch / "after", scratch / "staged"
    copy_tree(before, after)
    storage = RecordingStorage(after, before_first=lambda: copy_tree(after, staged))
    (result,) = run_winnow(spark, after, case, storage=storage)
    assert result.error is None, result.error
    return CrashRun(case, before, staged, storage.effects, after, result)


@dataclass(frozen=True)
class ReadLog:
    records: list[Record]
    end: int
    """Log end offset."""
    empty_batches: int
    void: frozenset[int] = frozenset()
    """Offsets of control records and of what a transaction wrote whose ABORT marker is there."""

    @property
    def by_offset(self) -> dict[int, Record]:
        return {one.offset: one for one in self.records}

    @property
    def newest(self) -> dict[bytes | None, Record]:
        """The last record of each key, tombstones too; not what was aborted."""
        return {one.key: one for one in self.records if one.offset not in self.void}

    @property
    def state(self) -> dict[bytes | None, bytes]:
        """What a reader of the whole log arrives at."""
        return {key: one.value for key, one in self.newest.items() if one.value is not None}


@lru_cache(maxsize=4096)
def batches_of(log: bytes) -> tuple[tuple[Rows, list[Record]], ...]:
    """Every batch of a segment, CRCs included. Crashes leave mostly the same segments: each is read
    once.
    """
    found, position = [], 0
    while position < len(log):
        found.append(decode_batch(log, position))
        position += int(found[-1][0]["size"])
    return tuple(found)


def read_log(directory: Path) -> ReadLog:
    """Every batch, CRCs included; offsets must ascend through the whole log and respect the
    segments' bases.
    """
    records: list[Record] = []
    end = empty = 0
    undecided: dict[int, set[int]] = defaultdict(set)
    void: set[int] = set()
    for path in sorted(directory.glob("*.log")):
        base = int(path.name.split(".")[0])
        assert base >= end, f"{path} begins below {end}"
        end = base
        for header, found in batches_of(path.read_bytes()):
            assert int(header["base_offset"]) >= end, (
                f"{path} at byte {header['position']}: offsets go back"
            )
            records += found
            empty += not found
            offsets, producer = {one.offset for one in found}, int(header["producer_id"])
            if int(header["attributes"]) & CONTROL:
                void |= offsets
                written = undecided.pop(producer, set())
                if found and control_type(found[0].key) is ControlType.ABORT:
                    void |= written
            elif int(header["attributes"]) & TRANSACTIONAL:
                undecided[producer] |= offsets
            end = int(header["last_offset"]) + 1
    return ReadLog(records, end, empty, frozenset(void))


def void_by_index(directory: Path) -> frozenset[int]:
    """Offsets of control records, and of records that a consumer skips by the transaction indexes
    (S1.8).
    """
    aborted = [
        entry
        for path in sorted(directory.glob(f"*{TXNINDEX}"))
        for entry in decode_txn_index(
            path.read_bytes(), str(path), base_offset=int(path.name.split(".")[0])
        )
    ]
    void: set[int] = set()
    for path in sorted(directory.glob("*.log")):
        for header, found in batches_of(path.read_bytes()):
            attributes, base = int(header["attributes"]), int(header["base_offset"])
            if attributes & CONTROL or (
                attributes & TRANSACTIONAL
                and any(
                    e.producer_id == header["producer_id"]
                    and e.first_offset <= base <= e.last_offset
                    for e in aborted
                )
            ):
                void |= {one.offset for one in found}
    return frozenset(void)


def files_of(directory: Path, *suffixes: str) -> dict[str, bytes]:
    """Content by name."""
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.name.endswith(suffixes)
    }


@dataclass(frozen=True)
class MustHold:
    """What is true of a run's log at every instant, and so after every crash."""

    case: Case
    before: ReadLog
    compacted: dict[int, Record]
    """Records by offset after the last group is in place and before retention."""
    after: ReadLog
    checkpoint_before: int | None

    def check(self, root: Path, label: str) -> None:
        found = read_log(root / self.case.partition)
        assert found.end == self.before.end, f"{label}: the log end offset moved"
        assert void_by_index(root / self.case.partition) == found.void, (
            f"{label}: a reader sees aborted records"
        )
        assert found.by_offset.items() <= self.before.by_offset.items(), (
            f"{label}: records that were not there before"
        )
        lost = self.after.by_offset.keys() - found.by_offset.keys()
        assert not lost, f"{label}: lost offsets {sorted(lost)}"
        # The newest record of a key may be dropped only if all records of the key are: no older
        # one comes back.
        for key, newest in found.newest.items():
            assert newest == self.before.newest[key], f"{label}: {newest} was superseded"
        # Retention takes from the start on: of what it took, nothing below is left.
        gone = [offset for offset in self.compacted if offset not in found.by_offset]
        kept = [offset for offset in self.compacted if offset in found.by_offset]
        assert max(gone, default=-1) < min(kept, default=found.end), (
            f"{label}: a hole at {max(gone)}"
        )
        if not gone:
            assert found.state == self.before.state, f"{label}: another value per key"
        checkpoint = checkpoint_entry(root, CLEANER_CHECKPOINT, self.case.partition)
        if self.case.compacts and checkpoint != self.checkpoint_before:
            dirty = found.by_offset.keys() - self.compacted.keys()
            assert not dirty, f"{label}: the checkpoint calls {sorted(dirty)} clean"


def must_hold(run: CrashRun, scratch: Path) -> MustHold:
    partition = run.case.partition
    return MustHold(
        case=run.case,
        before=read_log(run.before / partition),
        compacted={one.offset: one for one in run.before_retention(scratch)},
        after=read_log(run.after / partition),
        checkpoint_before=checkpoint_entry(run.before, CLEANER_CHECKPOINT, partition),
    )


def checkpoint_entry(root: Path, name: str, partition: str) -> int | None:
    topic, _, number = partition.rpartition("-")
    return read_offset_checkpoint(LocalStorage(), f"{root}/{name}").get(
        TopicPartition(topic, int(number))
    )
