"""What a start of a broker would do with a recorded log directory that was damaged in one place.

Real brokers judge the same kinds of damage in `tests/kafka/starts`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.disks import disk_or_skip, fill
from tests.fixtures.data import copy_log_dir, copy_tree
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.errors import CorruptLogError
from winnow.logdir.indexes.index import decode_offset_index
from winnow.logdir.names import CLEAN_SHUTDOWN, META_PROPERTIES
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.config import TopicConfig
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version
from winnow.start.broker import expected_starts
from winnow.start.loaded import LoadedLog
from winnow.start.loader import load_log
from winnow.start.logs import logs_to_load
from winnow.start.values import BrokerStart, Fate, LogStart
from winnow.storage.contract import Entry, Volume
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places

NOW = 1_800_000_000_000
METADATA = "__cluster_metadata-0"
PARTITIONS = ("c-tomb-0", "d-time-0", METADATA)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = copy_log_dir("clean", tmp_path / "kafka", only=PARTITIONS)
    remove_other_topics(path)
    return path


def start_of(*paths: Path, settings: Settings | None = None) -> BrokerStart:
    dirs = survey_log_dirs(Places(), [str(path) for path in paths])
    (found,) = expected_starts(None, dirs, settings or Settings(), now=NOW)
    return found


def log_of(start: BrokerStart, name: str) -> LogStart:
    (found,) = [log for one in start.log_dirs for log in one.logs if log.name == name]
    return found


def test_sound_directory_loads(log_dir: Path) -> None:
    start = start_of(log_dir)
    assert start.is_safe
    assert {log.fate for log in start.log_dirs[0].logs} == {Fate.LOADS}
    assert log_of(start, "c-tomb-0").log_end_offset == _checkpoint(log_dir, "c-tomb-0")


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("swap", ["", ".swap"])
def test_each_partition_is_listed_once(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, swap: str, *, is_known: bool
) -> None:
    first = min((log_dir / "d-time-0").glob("*.log"))
    first.rename(f"{first}{swap}")
    dirs = survey_log_dirs(Places(), [str(log_dir)])
    known: dict[str, LoadedLog] = {}
    if is_known:
        log = next(logs_to_load(Places(), dirs[0], Settings(), NOW))
        assert isinstance(log.config, TopicConfig)
        known[log.directory] = load_log(Places(), log, log.config)
    listed = Counter[str]()
    list_dir = LocalStorage.list_dir

    def counted(storage: LocalStorage, path: str) -> tuple[Entry, ...]:
        listed[path] += 1
        return list_dir(storage, path)

    monkeypatch.setattr(LocalStorage, "list_dir", counted)
    (start,) = expected_starts(None, dirs, Settings(), now=NOW, known=known)
    assert len(start.log_dirs[0].logs) == 2
    assert {name: listed[str(log_dir / name)] for name in PARTITIONS[:2]} == {
        "c-tomb-0": 1,
        "d-time-0": 1,
    }


def test_directory_without_the_marker_is_recovered(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    os.truncate(log_dir / "recovery-point-offset-checkpoint", 0)
    start = start_of(log_dir)
    assert start.is_safe
    names = ("c-tomb-0", "d-time-0")
    logs = [path.stat().st_size for name in names for path in (log_dir / name).glob("*.log")]
    assert start.recovered_bytes == sum(logs)


def test_metadata_log_without_records_sets_all_partitions_aside(log_dir: Path) -> None:
    os.truncate(log_dir / METADATA / f"{0:020d}.log", 0)
    start = start_of(log_dir)
    assert start.fate is Fate.LOSES
    assert "starts without any topic" in start.reasons[0]
    assert [log.name for log in start.logs(Fate.SET_ASIDE)] == ["c-tomb-0", "d-time-0"]


def test_migrated_broker_with_version_0_knows_its_topics_from_the_metadata_log(
    log_dir: Path,
) -> None:
    """Brokers with KRaft start with version 0 of meta.properties and keep it."""
    meta = log_dir / "meta.properties"
    meta.write_text(
        meta.read_text().replace("version=1", "version=0").replace("node.id", "broker.id")
    )
    os.truncate(log_dir / METADATA / f"{0:020d}.log", 0)
    roles = Settings(
        server_properties=parse_server_properties("process.roles=broker,controller\nnode.id=1")
    )
    names = ["c-tomb-0", "d-time-0"]
    assert [log.name for log in start_of(log_dir, settings=roles).logs(Fate.SET_ASIDE)] == names
    assert start_of(log_dir).is_safe  # with ZooKeeper


def _cut_newest_topics(log_dir: Path) -> None:
    log = log_dir / METADATA / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 3] ^= 1
    log.write_bytes(data)


def test_damaged_metadata_log_ends_before_the_damage_and_forgets_later_topics(
    log_dir: Path,
) -> None:
    _cut_newest_topics(log_dir)
    start = start_of(log_dir)
    assert start.fate is Fate.LOSES
    assert "Changes of topics in it are lost" in start.reasons[0]


@pytest.mark.parametrize("kept", [0, 1])
def test_index_beyond_the_end_of_a_log_shows_its_loss_and_is_kept(log_dir: Path, kept: int) -> None:
    log = min((log_dir / "d-time-0").glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[: kept * (12 + int.from_bytes(data[8:12]))])
    start = start_of(log_dir)
    found = log_of(start, "d-time-0")
    assert (found.fate, start.is_safe) == (Fate.LOADS, False)
    assert f"index of {log.name} names offset" in found.already_lost
    with pytest.raises(CorruptLogError, match="Keep the index: it shows the loss") as caught:
        decode_offset_index(
            log.with_suffix(".index").read_bytes(), "", base_offset=0, log_bytes=log.stat().st_size
        )
    assert "Delete the .index" not in str(caught.value)


@pytest.mark.parametrize(("last", "fate"), [(2**63 - 1, Fate.LOSES), (2**63 - 2, Fate.LOADS)])
def test_log_whose_end_overflows_is_deleted(log_dir: Path, last: int, fate: Fate) -> None:
    """Brokers do it in `tests/kafka/starts`. No CRC covers offsets."""
    batch = min((log_dir / "d-time-0").glob("*.log")).read_bytes()
    batch = batch[: 12 + int.from_bytes(batch[8:12])]
    base = last - int.from_bytes(batch[23:27])
    path = log_dir / "d-time-0" / f"{base:020d}.log"
    path.write_bytes(base.to_bytes(8) + batch[8:])
    path.with_suffix(".index").touch()
    found = log_of(start_of(log_dir), "d-time-0")
    assert found.fate is fate
    logs = [one.stat().st_size for one in path.parent.glob("*.log")]
    if fate is Fate.LOSES:
        assert "ends at offset 2^63-1, so that the log end overflows: all is del" in found.reason
        assert found.cut_bytes == sum(logs)
        assert found.log_end_offset == found.log_start_offset
        path.write_bytes(path.read_bytes() + bytes(61))  # not the last bytes: a broker ends
        found = log_of(start_of(log_dir), "d-time-0")
        assert found.fate is Fate.STOPS


def _topic_id(text: str) -> Callable[[Path], None]:
    return lambda path: (path / "partition.metadata").write_text(text) and None


@pytest.mark.parametrize(
    ("damage", "fate", "reason"),
    [
        (lambda path: (path / "partition.metadata").unlink(), Fate.SET_ASIDE, "no topic id"),
        (_topic_id(""), Fate.STOPS, "is empty"),
        (_topic_id("version: 0\n"), Fate.STOPS, "ends before the topic id"),
        (_topic_id("version: 0\ntopic_id: short\n"), Fate.STOPS, "malformed topic id"),
        (_topic_id("\0" * 43), Fate.OFFLINE, "does not begin with a version"),
        (
            _topic_id("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"),
            Fate.SET_ASIDE,
            "no topic with its id AAAAAAAAAAAAAAAAAAAAAQ",
        ),
        (
            lambda path: (path / "leader-epoch-checkpoint").write_bytes(bytes(8)),
            Fate.OFFLINE,
            "leader-epoch-checkpoint can't be read",
        ),
        (
            lambda path: _active(path).write_bytes(_active(path).read_bytes() + bytes(100)),
            Fate.STOPS,
            "expected",
        ),
    ],
)
def test_damaged_file_of_a_partition(
    log_dir: Path, damage: Callable[[Path], None], fate: Fate, reason: str
) -> None:
    damage(log_dir / "c-tomb-0")
    start = start_of(log_dir)
    found = log_of(start, "c-tomb-0")
    assert (found.fate, reason in found.reason) == (fate, True), found
    assert log_of(start, "d-time-0").fate is Fate.LOADS
    assert start.fate is (Fate.STOPS if fate is Fate.OFFLINE else fate)


def _active(path: Path) -> Path:
    return max(path.glob("*.log"))


def test_partition_number_that_the_topic_lacks_is_set_aside(log_dir: Path) -> None:
    copy_tree(log_dir / "c-tomb-0", log_dir / "c-tomb-7")
    found = log_of(start_of(log_dir), "c-tomb-7")
    assert (found.fate, "no partition 7" in found.reason) == (Fate.SET_ASIDE, True)


def test_log_start_above_the_end_deletes_the_log(log_dir: Path) -> None:
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nc-tomb 0 900000\n")
    found = log_of(start_of(log_dir), "c-tomb-0")
    assert found.fate is Fate.LOSES
    assert found.cut_bytes == sum(
        log.stat().st_size for log in (log_dir / "c-tomb-0").glob("*.log")
    )


def test_log_that_ends_below_its_high_watermark_has_lost_its_end(log_dir: Path) -> None:
    for file in (log_dir / "c-tomb-0").glob(f"{_active(log_dir / 'c-tomb-0').stem}.*"):
        file.unlink()
    start = start_of(log_dir)
    assert log_of(start, "c-tomb-0").already_lost
    assert not start.is_safe


@pytest.mark.parametrize("leftover", [None, "00000000000000000000.txnindex.deleted"])
def test_log_of_which_a_middle_segment_is_missing_loads_and_has_lost_it(
    log_dir: Path, leftover: str | None
) -> None:
    sorted((log_dir / "c-tomb-0").glob("*.log"))[1].unlink()
    if leftover is not None:
        (log_dir / "c-tomb-0" / leftover).touch()
    start = start_of(log_dir)
    found = log_of(start, "c-tomb-0")
    assert found.fate is Fate.LOADS
    assert "the .log file of 1 segment is missing" in found.already_lost
    assert not start.is_safe


def test_batches_behind_damage_are_lost_by_a_recovery(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    os.truncate(log_dir / "recovery-point-offset-checkpoint", 0)
    first = min((log_dir / "c-tomb-0").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[50] ^= 1
    first.write_bytes(data)
    found = log_of(start_of(log_dir), "c-tomb-0")
    assert found.fate is Fate.LOSES
    assert found.log_end_offset == int(first.stem)


def test_missing_index_is_rebuilt_after_a_clean_shutdown(log_dir: Path) -> None:
    first = min((log_dir / "c-tomb-0").glob("*.log"))
    first.with_suffix(".index").unlink()
    found = log_of(start_of(log_dir), "c-tomb-0")
    assert (found.fate, found.recovered_bytes) == (Fate.RECOVERS, first.stat().st_size)


def test_malformed_checkpoint_takes_the_directory_offline(log_dir: Path) -> None:
    (log_dir / "replication-offset-checkpoint").write_text("0\n2\nc-tomb 0 1\n")
    start = start_of(log_dir)
    assert (start.fate, start.log_dirs[0].fate) == (Fate.STOPS, Fate.OFFLINE)
    assert "announces 2 entries and has 1" in start.log_dirs[0].reasons[0]


def test_second_metadata_log_keeps_the_broker_from_starting(log_dir: Path, tmp_path: Path) -> None:
    other = copy_log_dir("clean", tmp_path / "other", only=["c-none-0", METADATA])
    assert start_of(log_dir, other).fate is Fate.STOPS
    text = f"node.id=1\nprocess.roles=broker\nlog.dirs={log_dir},{other}\n"
    named = start_of(
        log_dir, other, settings=Settings(server_properties=parse_server_properties(text))
    )
    assert "Found unexpected metadata location" in "".join(named.reasons)


@pytest.mark.parametrize(
    ("version", "words"), [("4.3", "Kafka empties the segment"), ("3.9", "can't recover its logs")]
)
def test_start_on_a_full_disk_after_a_crash_loses_records(
    tmp_path: Path, version: str, words: str
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=8) as disk:
        log_dir = copy_log_dir("clean", disk / "kafka", only=PARTITIONS)
        settings = replace(Settings(), kafka=asked_version(version))
        fill(disk)
        start = start_of(log_dir, settings=settings)
        assert (start.fate, start.log_dirs[0].fate) == (Fate.STOPS, Fate.OFFLINE)
        assert "has 0 B free for the broker" in start.log_dirs[0].reasons[0]
        (log_dir / ".kafka_cleanshutdown").unlink()
        [found] = start_of(log_dir, settings=settings).log_dirs
        assert (found.fate, words in found.reasons[0]) == (Fate.LOSES, True)


@pytest.mark.parametrize("left", [0, 1024, 8192])
def test_start_is_unknown_if_a_log_directory_has_no_free_block(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """Also that of a broker that was stopped cleanly. Observed: with 1 KiB free, Kafka 4.3.1 ends
    on ext4 with blocks of 1 KiB; without a free byte in the second log directory, it may take this
    directory offline, and Kafka 2.8.2 ends.
    """
    second = tmp_path / "second"
    second.mkdir()
    lines = (log_dir / META_PROPERTIES).read_text().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id")]
    (second / META_PROPERTIES).write_text("\n".join(kept))
    (second / CLEAN_SHUTDOWN).touch()
    volume = Places.volume

    def nearly_full(storage: Places, path: str) -> Volume:
        found = volume(storage, path)
        return replace(found, free_bytes=left, used_bytes=None) if path == str(second) else found

    monkeypatch.setattr(Places, "volume", nearly_full)
    start = start_of(log_dir, second)
    assert start.is_safe == (left >= 4096)
    assert [one.fate for one in start.log_dirs if one.path == str(log_dir)] == [Fate.LOADS]
    assert start.fate is (Fate.UNKNOWN if left < 4096 else Fate.LOADS)


def test_metadata_version_that_is_too_new_keeps_an_older_broker_from_starting(
    log_dir: Path,
) -> None:
    assert start_of(log_dir).is_safe
    start = start_of(log_dir, settings=replace(Settings(), kafka=asked_version("3.9")))
    assert start.fate is Fate.STOPS
    assert "is newer than 3.9-IV0, the newest that this broker's version knows" in start.reasons[0]


def _checkpoint(log_dir: Path, name: str) -> int:
    topic, _, partition = name.rpartition("-")
    text = (log_dir / "recovery-point-offset-checkpoint").read_text()
    (offset,) = [
        int(line.split()[2])
        for line in text.splitlines()
        if line.startswith(f"{topic} {partition} ")
    ]
    return offset
