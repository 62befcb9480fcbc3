"""After a broker's crash Winnow reads what a broker would recover. Then it decides as Kafka does on
the log that Kafka's own loader recovers (S8.2).

Kafka first recovers a copy of the crashed directory, then cleans it or applies retention, at the
same clock. The same segments must remain, with the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import CLEAN_MARKER, copy_log_dir, copy_tree
from tests.kafka.cleaner.runs import read_checkpoint, write_checkpoint
from tests.kafka.judge.judge import Kafka
from tests.spark.runs import NOW, by_name, changes, clean, files_of, run
from winnow.errors import CorruptLogError
from winnow.logdir.listing import list_below
from winnow.logdir.unflushed import read_segment, recovered_end
from winnow.storage.local import LocalStorage

pytestmark = pytest.mark.spark

RECOVERY_POINTS, HIGH_WATERMARKS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)
CONFIG = {"internal.segment.bytes": 65_536, "index.interval.bytes": 512}
COMPACTED = ("c-tomb-0", "c-4p-1", "c-plain-0", "t-open-0")
DELETED = {
    "d-time-0": {"cleanup.policy": "delete", "retention.ms": 1000, "retention.bytes": -1},
    "d-size-0": {"cleanup.policy": "delete", "retention.ms": -1, "retention.bytes": 100_000},
}
NAMES = (*COMPACTED, *DELETED)
SETS = [
    *(f"*:{key}={value}" for key, value in CONFIG.items()),
    "*:min.cleanable.dirty.ratio=0",
    *(f"{name[:-2]}:{key}={value}" for name, c in DELETED.items() for key, value in c.items()),
]

Tear = Callable[[Path], None]
"""Changes a partition directory as a crash may."""


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def nothing(_directory: Path) -> None:
    pass


def torn_batch(directory: Path) -> None:
    active = logs(directory)[-1]
    active.write_bytes(active.read_bytes()[:-7])


def zeros(directory: Path) -> None:
    active = logs(directory)[-1]
    active.write_bytes(active.read_bytes() + bytes(100_000))


def torn_middle(directory: Path) -> None:
    """The last but one segment ends inside a batch; the active one is whole."""
    middle = logs(directory)[-2]
    middle.write_bytes(middle.read_bytes()[:-7])


def flipped_crc(directory: Path) -> None:
    middle = logs(directory)[-2]
    data = bytearray(middle.read_bytes())
    # The last byte of a record: a flipped base offset would fail no checksum.
    data[-1] ^= 1
    middle.write_bytes(data)


def lost_pages(directory: Path) -> None:
    middle = logs(directory)[-3]
    data = middle.read_bytes()
    middle.write_bytes(data[:20_000] + bytes(8192) + data[28_192:])


def bad_indexes(directory: Path) -> None:
    """Of all segments: padded, torn, of other bytes, or missing."""
    for number, path in enumerate(logs(directory)):
        index, times = path.with_suffix(".index"), path.with_suffix(".timeindex")
        index.write_bytes([index.read_bytes() + bytes(800), b"\xff" * 8, b"torn"][number % 3])
        if number % 2:
            times.unlink()
        else:
            times.write_bytes(times.read_bytes() + bytes(1200))


TEARS: dict[str, Tear] = {
    tear.__name__: tear
    for tear in (nothing, torn_batch, zeros, torn_middle, flipped_crc, lost_pages, bad_indexes)
}


def crashed(path: Path, tear: Tear, recovery_point: str) -> Path:
    log_dir = copy_log_dir("clean", path, only=list(NAMES))
    (log_dir / "cleaner-offset-checkpoint").unlink()
    (log_dir / CLEAN_MARKER).unlink()
    points = {"empty": None, "fresh": -2, "inside": -3, "beyond": 10**9}
    point = points[recovery_point]
    entries: dict[str, int] = {}
    for name in NAMES:
        bases = [int(log.stem) for log in logs(log_dir / name)]
        if point is not None:
            entries[name] = point if point > 0 else bases[max(point, -len(bases))] + 3
        tear(log_dir / name)
    write_checkpoint(log_dir / RECOVERY_POINTS, entries)
    return log_dir


@pytest.mark.parametrize(
    ("tear", "recovery_point"),
    [
        *((tear, "empty") for tear in TEARS),
        ("torn_batch", "fresh"),
        ("zeros", "beyond"),
        ("torn_middle", "inside"),
        ("flipped_crc", "inside"),
        ("nothing", "beyond"),
    ],
)
def test_decisions_equal_those_of_kafka_after_its_recovery(
    tear: str, recovery_point: str, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    ours = crashed(tmp_path / "ours", TEARS[tear], recovery_point)
    theirs, before = tmp_path / "theirs", tmp_path / "before"
    copy_tree(ours, theirs)
    copy_tree(ours, before)
    marks = read_checkpoint(ours / HIGH_WATERMARKS)
    results = by_name(run(clean, spark, ours, sets=SETS))
    acted = 0
    for name in NAMES:
        assert results[name].error is None, results[name].error
        act = kafka.retain if name in DELETED else kafka.clean
        config = CONFIG | DELETED.get(name, {})
        act(theirs / name, now=NOW, config=config, hw=marks[name], unclean=True)
        kept = logs(theirs / name)
        rolled = name == "d-time-0" and [log.stat().st_size for log in kept] == [0]
        if rolled:
            # All is expired, so Kafka has rolled the active segment, too. That is left to it.
            end = int(kept[0].stem)
            assert f"ends at offset {end}" in results[name].reason
            (active,) = (log for log in logs(ours / name) if int(log.stem) < end)
            changed = changes(files_of(before / name), files_of(ours / name))
            assert [file for file in changed if active.stem <= file[:20] < "a"] == []
            acted += 1
            continue
        recovered = kafka.load(theirs / name, now=NOW, config=config).state["end_offset"]
        assert f"ends at offset {recovered}" in results[name].reason, name
        left = {path.name: path.read_bytes() for path in logs(ours / name)}
        # Files behind a cut are left to the broker.
        expected = {path.name: path.read_bytes() for path in kept}
        active = max(expected)
        below = {file: data for file, data in left.items() if file <= active}
        assert sorted(below) == sorted(expected), name
        for file, data in expected.items():
            assert below[file][: len(data)] == data, (name, file)
            assert file == active or len(below[file]) == len(data), (name, file)
        # What lies at or behind the end is as it was.
        touched = changes(files_of(before / name), files_of(ours / name))
        assert [file for file in touched if file.endswith(".log") and file >= active] == []
        acted += results[name].actions != ("none",)
        # And a broker recovers the result, with all its records.
        loaded = kafka.load(ours / name, now=NOW, config=config, unclean=True)
        assert loaded.error is None
        assert loaded.state["end_offset"] == recovered
        assert loaded.records == kafka.load(theirs / name, now=NOW, config=config).records
    assert acted == len(NAMES) or tear in ("torn_middle", "flipped_crc", "lost_pages")
    assert not (ours / CLEAN_MARKER).exists()


def test_end_of_a_log_with_any_torn_tail_is_that_of_kafkas_loader(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Bytes lost in the last segments, at random: the same end, and the same bytes are kept."""
    sound = copy_log_dir("clean", tmp_path / "sound", only=list(NAMES))
    rng = random.Random(23)
    cuts = refused = 0
    for number in range(150):
        name = rng.choice(NAMES)
        directory = tmp_path / str(number) / name
        directory.parent.mkdir()
        copy_tree(sound / name, directory)
        victim = rng.choice(logs(directory)[-3:])
        victim.write_bytes(mutated(victim.read_bytes(), rng))
        listed = list_below(LocalStorage(), str(directory), -1).segments
        try:
            reads = [
                read_segment(str(directory), segment, index_interval_bytes=4096)
                for segment in listed
            ]
        except CorruptLogError:
            refused += 1
            continue
        found = recovered_end(reads, str(directory))
        loaded = kafka.load(directory, now=NOW, unclean=True, config={"index.interval.bytes": 4096})
        assert loaded.error is None
        assert loaded.state["end_offset"] == found.end_offset, (number, found)
        cuts += found.why_cut is not None
        kept = {int(log.stem): log.stat().st_size for log in logs(directory)}
        assert kept == {
            segment.base_offset: segment.log_bytes
            for segment in (read.segment for read in reads)
            if segment.base_offset not in found.removed
        }, number
        # The loader preallocates the indexes of the active segment.
        for segment in (read.segment for read in reads):
            if segment.base_offset in kept and segment.base_offset != max(kept):
                index = directory / f"{segment.base_offset:020d}.index"
                sizes_of = (index.stat().st_size, index.with_suffix(".timeindex").stat().st_size)
                assert sizes_of == segment.rebuilt, number
    assert cuts > 80
    assert refused < 15


def test_damaged_segment_without_an_offset_index_is_left_to_recover(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Kafka cuts it when it opens it, and keeps the later segments: no cut that a cleaning follows.
    `recover` plans the same cut as Kafka makes (tests/kafka/recover).
    """
    directory = copy_log_dir("clean", tmp_path / "logs", only=list(NAMES)) / NAMES[0]
    victim, *later = logs(directory)[-3:]
    victim.with_suffix(".index").unlink()
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    listed = list_below(LocalStorage(), str(directory), -1).segments
    reads = [read_segment(str(directory), one, index_interval_bytes=4096) for one in listed]
    cut = reads[-3]
    with pytest.raises(CorruptLogError, match=f"cuts this segment at offset {cut.next_offset} "):
        recovered_end(reads, str(directory))
    sizes = [log.stat().st_size for log in later]
    assert kafka.load(directory, now=NOW, unclean=True).error is None
    assert victim.stat().st_size == cut.segment.log_bytes < len(data)
    assert [log.stat().st_size for log in later] == sizes


def mutated(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    length = rng.choice((1, 20, 500, 4096, 20_000))
    match rng.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes(length) + data[at + length :]
        case 2:
            return data[:at] + rng.randbytes(length) + data[at + length :]
        case _:
            return data + bytes(length)


@pytest.mark.parametrize("tail", [b"", bytes(5_000), b"\0" * 8 + b"\x00\x00\x00\x30" + b"x" * 20])
def test_logs_of_old_formats_end_and_are_compacted_as_by_kafka(
    tail: bytes, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    ours = copy_log_dir("legacy", tmp_path / "ours")
    (ours / CLEAN_MARKER).unlink()
    names = sorted(path.name for path in ours.iterdir() if path.is_dir())
    for name in names:
        with logs(ours / name)[-1].open("ab") as file:
            file.write(tail)
        for index in (ours / name).glob("*.index"):
            index.write_bytes(index.read_bytes() + bytes(80))
    write_checkpoint(ours / RECOVERY_POINTS, {})
    copy_tree(ours, tmp_path / "theirs")
    sets = [
        "*:cleanup.policy=compact",
        "*:min.cleanable.dirty.ratio=0",
        "*:delete.retention.ms=1000",
    ]
    marks = read_checkpoint(ours / HIGH_WATERMARKS)
    now = 1_450_100_000_000
    results = by_name(run(clean, spark, ours, sets=sets, now=now))
    config = {"delete.retention.ms": 1000}
    compared = 0
    for name in names:
        assert results[name].error is None, results[name].error
        kafka.clean(
            tmp_path / "theirs" / name, now=now, config=config, hw=marks[name], unclean=True
        )
        theirs = {log.name: log.read_bytes() for log in logs(tmp_path / "theirs" / name)}
        mine = {log.name: log.read_bytes() for log in logs(ours / name)}
        assert [*mine] == [*theirs], name
        active = max(theirs)
        assert mine[active][: len(theirs[active])] == theirs[active], name
        compared += results[name].actions == ("compacted",)
    assert compared > 8
