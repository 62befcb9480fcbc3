"""Recover the same logs with Winnow and with Kafka's own classes, and compare every file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.fixtures.data import copy_log_dir
from tests.kafka.judge.judge import Kafka
from tests.kafka.recover.many_producers import make_many_producers
from tests.kafka.recover.tails import Tail, make_tail
from winnow.errors import CorruptLogError
from winnow.logdir.listing import list_after_crash
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    DELETED,
    HIGH_WATERMARK_CHECKPOINT,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    METADATA_TOPIC,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from winnow.logdir.snapshots import encode_snapshot
from winnow.logdir.survey import survey_log_dirs
from winnow.logdir.unflushed import read_segment, recovered_end
from winnow.policy.sources import Settings, parse_set
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import RecoveredDir, TruncateRequest
from winnow.start.loaded import LoadedLog
from winnow.storage.contract import Storage
from winnow.storage.places import Places

NOW = 1_800_000_000_000
INTERVAL_BYTES = 512
"""Small segments get several index entries."""
EXPIRATION_MS = 2**31 - 1
"""So that the producers of the fixtures are not forgotten. Other tests let them expire."""
_ELSEWHERE = {"x-swap-0"}
"""Its `.swap` files reach into the active segment, which Winnow refuses (docs/decisions/0011)."""
_NO_PRODUCERS = encode_snapshot([])
LOST = "lose_a_segment"
FIXTURES = ("clean", "legacy", "damaged")


@dataclass
class Compared:
    """How many logs ended how."""

    same: int = 0
    cut: int = 0
    """Of them: something was cut."""
    refused_by_both: int = 0
    lost: int = 0
    """A `.log` is lost. Kafka deletes its indexes and loads the rest; Winnow changes nothing."""
    refused: list[str] = field(default_factory=list)
    """Winnow leaves the log alone, Kafka recovers it."""
    left_by_clean: int = 0
    """`clean` leaves the log to `recover`. Of all others it expects the same cut."""
    different: list[str] = field(default_factory=list)

    def add(self, other: Compared) -> None:
        self.same += other.same
        self.cut += other.cut
        self.lost += other.lost
        self.refused_by_both += other.refused_by_both
        self.left_by_clean += other.left_by_clean
        self.refused += other.refused
        self.different += other.different


def request(
    *, now: int = NOW, keep_cut: bool = True, expiration_ms: int = EXPIRATION_MS
) -> TruncateRequest:
    sets = (
        f"log.index.interval.bytes={INTERVAL_BYTES}",
        f"producer.id.expiration.ms={expiration_ms}",
    )
    return TruncateRequest(
        settings=Settings(sets=tuple(map(parse_set, sets))),
        now=now,
        truncate=True,
        keep_cut=keep_cut,
        lose_records=True,
    )


def recover_with_winnow(
    log_dir: Path, *, storage: Storage | None = None, asked: TruncateRequest | None = None
) -> RecoveredDir:
    """Recover a log directory beside which there is no metadata log, as Kafka's `LogManager` alone
    does: like that of a broker with ZooKeeper, since one with KRaft starts without any topic then.
    """
    storage = storage or Places()
    with _with_zookeeper(log_dir / META_PROPERTIES):
        (surveyed,) = survey_log_dirs(storage, [str(log_dir)])
        (recovered,), _ = recover_dirs(storage, [surveyed], asked or request(), run_id="run")
    return recovered


@contextmanager
def _with_zookeeper(meta: Path) -> Iterator[None]:
    kept = meta.read_bytes()
    _overwrite(meta, kept.replace(b"version=1", b"version=0").replace(b"node.id", b"broker.id"))
    try:
        yield
    finally:
        _overwrite(meta, kept)


def _overwrite(path: Path, data: bytes) -> None:
    """In its own block: the disk may be full."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


@cache
def sources(scratch: Path) -> tuple[Path, ...]:
    """Partitions of all fixtures, and logs of many producers: each so often that about every tenth
    damaged log is one of them.
    """
    found = [make_many_producers(scratch / f"many-{seed}", seed=seed) for seed in range(6)]
    for name in FIXTURES:
        log_dir = copy_log_dir(name, scratch / name)
        found += [path for path in partitions_of(log_dir) if path.name not in _ELSEWHERE]
    return tuple(found)


def partitions_of(log_dir: Path) -> list[Path]:
    return [
        path
        for path in sorted(log_dir.iterdir())
        if path.is_dir() and not path.name.startswith(METADATA_TOPIC)
    ]


def log_dir_of_tails(
    root: Path, seeds: Iterable[int], among: Sequence[Path], *, all_logs: bool = False
) -> dict[str, Tail]:
    """Make a log directory of damaged logs, one for each seed, by the name of their partition.
    `all_logs`: without those that have lost a `.log`.
    """
    root.mkdir(parents=True)
    (root / META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=judged\n")
    tails = {
        f"t-{seed}": make_tail(random.Random(seed).choice(among), root / f"t-{seed}", seed)
        for seed in seeds
    }
    for name in [name for name, tail in tails.items() if all_logs and LOST in tail.done]:
        shutil.rmtree(tails.pop(name).directory)
    without_topic_ids(root)
    _write_checkpoint(
        root / RECOVERY_POINT_CHECKPOINT, {n: t.recovery_point for n, t in tails.items()}
    )
    _write_checkpoint(root / LOG_START_CHECKPOINT, {n: t.log_start for n, t in tails.items()})
    _write_checkpoint(root / HIGH_WATERMARK_CHECKPOINT, {n: t.end for n, t in tails.items()})
    return tails


def without_topic_ids(log_dir: Path) -> None:
    """As written by a broker that knows none: those of copies from several topics contradict each
    other, and no start is promised then.
    """
    for metadata in log_dir.glob(f"*/{PARTITION_METADATA}"):
        metadata.unlink()


def _write_checkpoint(path: Path, offsets: Mapping[str, int | None]) -> None:
    lines = [
        f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {offset}\n"
        for name, offset in offsets.items()
        if offset is not None
    ]
    path.write_text(f"0\n{len(lines)}\n{''.join(lines)}")


def compare_tails(
    kafka: Kafka,
    root: Path,
    seeds: Iterable[int],
    among: Sequence[Path],
    *,
    expiration_ms: int = EXPIRATION_MS,
) -> Compared:
    """Recover damaged logs with both, log by log: one that Kafka can't load does not stop it."""
    ours, theirs = root / "ours", root / "theirs"
    tails = log_dir_of_tails(ours, seeds, among)
    shutil.copytree(ours, theirs)
    asked = request(expiration_ms=expiration_ms)
    cleaned = {name: _read_by_clean(ours / name, tail) for name, tail in tails.items()}
    recovered = {log.name: log for log in recover_with_winnow(ours, asked=asked).logs}
    loaded = kafka.rebuild(
        [theirs / name for name in tails],
        now=NOW,
        unclean=True,
        index_interval=INTERVAL_BYTES,
        producer_expiration_ms=expiration_ms,
    )
    compared = Compared()
    for name, tail in tails.items():
        ours_of, theirs_of = recovered[name], loaded[theirs / name]
        case = f"{name} of {tail.source}: {', '.join(tail.done)}"
        if ours_of.error is not None and "error" in theirs_of:
            compared.refused_by_both += 1
        elif ours_of.error is not None and "are lost" in ours_of.error:
            assert LOST in tail.done, case
            compared.lost += 1
        elif ours_of.error is not None:
            compared.refused.append(f"{case}: {ours_of.error}")
        elif "error" in theirs_of:
            compared.different.append(f"{case}: only Kafka fails: {theirs_of['error']}")
        else:
            assert ours_of.loaded is not None
            found = [
                *differences(ours / name, theirs / name),
                *_other_ends(ours_of.loaded, theirs_of["after"]),
                *_other_cuts(ours_of.loaded, cleaned[name]),
            ]
            compared.left_by_clean += isinstance(cleaned[name], str)
            if found:
                compared.different.append(f"{case}: {'; '.join(found)}")
            else:
                compared.same += 1
                compared.cut += bool(ours_of.loaded.truncation.cut_bytes)
    return compared


_Cut = tuple[int, tuple[tuple[int, int], ...], tuple[int, ...]]
"""The log end; base offset and size of the segments that are cut; those that are removed."""


def _read_by_clean(directory: Path, tail: Tail) -> _Cut | str:
    """How a cleaning expects a broker to cut the log, or why it leaves the log alone."""
    storage, at = Places(), str(directory)
    listing = list_after_crash(storage, at, tail.recovery_point or 0)
    if listing.problems or listing.leftovers or not listing.segments:
        return "what the listing shows"
    try:
        reads = [
            read_segment(at, segment, index_interval_bytes=INTERVAL_BYTES)
            for segment in listing.segments
            if segment.base_offset in listing.unflushed
        ]
        found = recovered_end(reads, at)
    except CorruptLogError as error:
        return str(error)
    cut = found.cut_segment
    cuts = () if cut is None else ((cut, found.cut_position),)
    return found.end_offset, cuts, found.removed


def _other_ends(loaded: LoadedLog, state: Mapping[str, int]) -> Iterator[str]:
    if loaded.log_end_offset != state["end_offset"]:
        yield f"end {loaded.log_end_offset}, not {state['end_offset']}"
    if loaded.log_start_offset != state["start_offset"]:
        yield f"start {loaded.log_start_offset}, not {state['start_offset']}"


def _other_cuts(loaded: LoadedLog, expected: _Cut | str) -> Iterator[str]:
    change = loaded.truncation
    planned = (
        loaded.log_end_offset,
        tuple((cut.base_offset, cut.size) for cut in change.cuts),
        tuple(segment.base_offset for segment in change.removed),
    )
    if not isinstance(expected, str) and change.created_segment is None and expected != planned:
        yield f"clean cuts as {expected}, recover as {planned}"


def differences(ours: Path, theirs: Path, *, ignore_empty: bool = False) -> Iterator[str]:
    """Yield how the files of two partition directories differ. Sub-directories are Winnow's own. So
    is that `.deleted` files above all records stay: they may have the only copy of the end.

    `ignore_empty`: snapshots without a producer may be missing.
    """
    one, other = (
        {
            name: data
            for name, data in _files(directory).items()
            if not ignore_empty or data != _NO_PRODUCERS
        }
        for directory in (ours, theirs)
    )
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            sizes = [None if name not in files else len(files[name]) for files in (one, other)]
            yield f"{name}: {sizes[0]} bytes, not the {sizes[1]} of Kafka"


def _files(directory: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    last = max((name for name, data in found.items() if name.endswith(LOG) and data), default="")
    return {
        name: data
        for name, data in found.items()
        if not (name.endswith(DELETED) and name[:20] > last[:20])
    }


def assert_same_log_dir(ours: Path, theirs: Path, *, ignore_empty: bool = False) -> None:
    """Every file of every partition, the marker, and the lines of the checkpoints."""
    for directory in partitions_of(theirs):
        found = [*differences(ours / directory.name, directory, ignore_empty=ignore_empty)]
        assert not found, f"{directory.name}: {'; '.join(found)}"
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT):
        one, other = ((root / name).read_text().splitlines() for root in (ours, theirs))
        assert (one[:2], sorted(one[2:])) == (other[:2], sorted(other[2:])), name
    assert (ours / CLEAN_SHUTDOWN).read_bytes() == (theirs / CLEAN_SHUTDOWN).read_bytes()
