"""Small log directories with one thing wrong in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.kafka.cleaner.txn_scripts import Script
from tests.log_writer.dir_writer import LogDirWriter
from tests.spark.damage import Log, field, torn, zeros_at_the_end
from tests.spark.runs import add_partition, new_log_dir, set_checkpoint
from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import indexes
from tests.unit.cleaning.sweeps import brief, findings
from tests.unit.logdir.test_lookup import T, batch, partition
from winnow.errors import UsageError
from winnow.logdir.indexes.txnindex import AbortedTransaction, decode_txn_index, encode_txn_index
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    INDEX,
    LOG,
    LOG_START_CHECKPOINT,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    segment_file,
)
from winnow.storage.local import LocalStorage
from winnow.verbs.verify import logs
from winnow.verbs.verify.directories import find_log_dirs
from winnow.verbs.verify.findings import Scope
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.logs import LogFile, check_log
from winnow.wire.batch import HEADER_V2_SIZE, Codec
from winnow.wire.buffers import Bytes, RecordBlocks, Rows
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES, inflate_parts
from winnow.wire.plain import Record

NAME = "c-4p-1"
"""A recorded partition; its active segment has base offset 1947 and four batches."""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    home = new_log_dir(tmp_path / "log-dir")
    add_partition(home, NAME, NAME)
    return home


def files(log_dir: Path, suffix: str) -> list[Path]:
    return sorted((log_dir / NAME).glob(f"0*{suffix}"))


def crashed(log_dir: Path, recovery_point: int) -> None:
    (log_dir / CLEAN_SHUTDOWN).unlink()
    set_checkpoint(log_dir / "recovery-point-offset-checkpoint", NAME, recovery_point)


def wrong_last_crc(directory: Path) -> str:
    log = Log(directory, -1)
    log.data[-1] ^= 1
    log.write()
    return log.at(-1)


def garbage_at_the_end(directory: Path) -> str:
    log = Log(directory, -1)
    log.data += b"\x07" * 1000
    log.write()
    return ""


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (torn(-1), "batch"),
        (zeros_at_the_end, "batch"),
        (garbage_at_the_end, "batch"),
        (wrong_last_crc, "crc"),
    ],
)
def test_torn_end_is_recoverable_only_after_a_crash(
    log_dir: Path, damage: Callable[[Path], str], kind: str
) -> None:
    active = files(log_dir, LOG)[-1]
    last = Log(log_dir / NAME, -1)
    end = (
        last.position(-1)
        if damage == wrong_last_crc or "torn" in damage.__qualname__
        else len(last.data)
    )
    damage(log_dir / NAME)
    assert [(f.kind.value, f.position, f.is_damage) for f in findings(log_dir)] == [
        (kind, end, True)
    ]
    crashed(log_dir, 1950)
    assert [(f.kind.value, f.file, f.position, f.is_damage) for f in findings(log_dir)] == [
        ("torn-tail", f"{NAME}/{active.name}", end, False)
    ]


def test_bad_batch_before_sound_ones_is_damage_even_after_a_crash(log_dir: Path) -> None:
    """A starting broker truncates the sound ones as well."""
    field(1, HEADER_V2_SIZE + 3, ">b", 1, segment=-1)(log_dir / NAME)
    crashed(log_dir, 0)
    assert [f.kind for f in findings(log_dir)] == [Kind.CRC]


def test_indexes_from_the_recovery_point_on_are_not_checked(log_dir: Path) -> None:
    """A broker rebuilds them, including those of the segment with the recovery point."""
    logs, wrong = files(log_dir, LOG), []
    for suffix in (INDEX, TIMEINDEX):
        paths = files(log_dir, suffix)
        for path in paths[:-1]:
            path.write_bytes(b"\xff" * 24)
            wrong.append(path.name)
        paths[-1].write_bytes(bytes(24_000))
    assert {Path(f.file).name for f in findings(log_dir)} == {
        *wrong,
        *(p.with_suffix(s).name for p in logs[-1:] for s in (INDEX, TIMEINDEX)),
    }
    crashed(log_dir, int(logs[2].stem) + 1)
    assert [Path(f.file).name for f in findings(log_dir)] == [
        logs[n].with_suffix(suffix).name for n in (0, 1) for suffix in (INDEX, TIMEINDEX)
    ]


def test_lost_transaction_index_is_reported_where_transactions_end(tmp_path: Path) -> None:
    """For transactions in one segment, and for those that begin in an earlier one."""
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["t-long-0"])
    for path in sorted((log_dir / "t-long-0").glob("*.txnindex")):
        content = path.read_bytes()
        path.unlink()
        assert brief(log_dir) == [("transaction-index", f"t-long-0/{path.name}", None)]
        path.write_bytes(content)
    assert brief(log_dir) == []


def test_transaction_index_below_the_log_start_may_be_missing(tmp_path: Path) -> None:
    """Kafka's cleaner drops the entries of transactions aborted there, even if it keeps the marker
    (S4.1).
    """
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["t-long-0"])
    [index] = (log_dir / "t-long-0").glob("*.txnindex")
    last = decode_txn_index(index.read_bytes(), "", base_offset=0, end_offset=None)[-1]
    index.unlink()
    set_checkpoint(log_dir / LOG_START_CHECKPOINT, "t-long-0", last.first_offset)
    assert brief(log_dir) == [("transaction-index", f"t-long-0/{index.name}", None)]
    set_checkpoint(log_dir / LOG_START_CHECKPOINT, "t-long-0", last.last_offset)
    assert brief(log_dir) == []


def _script(directory: Path) -> Path:
    """Write a log: producer 1 aborts 0-3, 2 commits data at 1 and 5, 3 is open from 4 to 9, and 2
    aborts 7-8 meanwhile.
    """
    with LogDirWriter(directory, clock=lambda: 1_700_000_000_000) as written:
        script = Script(written.partition("t", 0))
        script.data(1, "a")
        script.put("b")
        script.data(1, "c")
        script.abort(1)
        script.data(3, "d")
        script.put("e")
        script.roll()
        script.put("f")
        script.data(2, "g")
        script.abort(2)
        script.abort(3)
        script.put("h")
        script.roll()
        script.put("i")
    return directory


_ENTRIES = {
    0: (AbortedTransaction(1, 0, 3, 4),),
    6: (AbortedTransaction(2, 7, 8, 4), AbortedTransaction(3, 4, 9, 10)),
}


def test_entries_of_a_broker_are_sound(tmp_path: Path) -> None:
    log_dir = _script(tmp_path / "log-dir")
    for base, entries in _ENTRIES.items():
        path = log_dir / "t-0" / segment_file(base, TXNINDEX)
        assert decode_txn_index(path.read_bytes(), "", base_offset=base) == entries
    assert brief(log_dir) == []


@pytest.mark.parametrize(
    ("base", "number", "change"),
    [
        (0, 0, {"last_stable_offset": 5}),
        (0, 0, {"last_stable_offset": 2**62}),
        (0, 0, {"last_stable_offset": 1}),  # a batch without a producer
        (6, 0, {"last_stable_offset": 5}),  # producer 3 has been open since 4
        (6, 0, {"last_stable_offset": 9}),
        (6, 0, {"last_stable_offset": 6}),
        (6, 0, {"first_offset": 6}),
        (6, 0, {"first_offset": 5}),
        (6, 0, {"first_offset": 0}),
        (6, 1, {"first_offset": 1}),
        (6, 1, {"first_offset": 0}),
        (6, 1, {"last_stable_offset": 11}),
        (6, 1, {"last_stable_offset": 2**62}),
    ],
)
def test_entry_that_contradicts_the_log_is_reported(
    tmp_path: Path, base: int, number: int, change: dict[str, int]
) -> None:
    log_dir = _script(tmp_path / "log-dir")
    entries = [replace(e, **change) if n == number else e for n, e in enumerate(_ENTRIES[base])]
    path = log_dir / "t-0" / segment_file(base, TXNINDEX)
    path.write_bytes(encode_txn_index(entries))
    [(kind, file, _)] = brief(log_dir)
    assert (kind, file) == ("transaction-index", f"t-0/{path.name}")


def test_entry_may_name_a_batch_that_was_cleaned_away(tmp_path: Path) -> None:
    """All data of producer 3, at 4, was removed. The entry of 2 still names it, and that of 3 may,
    too.
    """
    log_dir = _script(tmp_path / "log-dir")
    log = Log(log_dir / "t-0", 0)
    rows = [row for row in log.rows if row["base_offset"] != 4]
    kept = b"".join(bytes(log.data[int(row["position"]) :][: int(row["size"])]) for row in rows)
    log.path.write_bytes(kept)
    for suffix, content in indexes(kept, 0).items():
        (log_dir / "t-0" / segment_file(0, suffix)).write_bytes(content)
    assert brief(log_dir) == []


def test_leader_epoch_below_minus_one_is_reported(log_dir: Path) -> None:
    field(0, 12, ">i", -2)(log_dir / NAME)
    [finding] = findings(log_dir)
    assert (finding.kind, finding.position) == (Kind.LEADER_EPOCHS, 0)
    assert finding.message == "expected a leader epoch -1 or above, found -2"


@pytest.mark.parametrize(
    ("name", "content", "kind", "file"),
    [
        ("meta.properties", "version=1\n", "properties", "meta.properties"),
        ("replication-offset-checkpoint", "0\n7\n", "checkpoint", "replication-offset-checkpoint"),
        ("meta.properties", "", "properties", "meta.properties"),
        ("meta.properties", "garbage\n", "properties", "meta.properties"),
        (f"{NAME}/partition.metadata", "version: 0", "properties", f"{NAME}/partition.metadata"),
        (f"{NAME}/partition.metadata", "", "properties", f"{NAME}/partition.metadata"),
        (
            f"{NAME}/leader-epoch-checkpoint",
            "0\n1\n",
            "leader-epochs",
            f"{NAME}/leader-epoch-checkpoint",
        ),
        (f"{NAME}/nonsense.index", "", "name", f"{NAME}/nonsense.index"),
        ("lost+found/x", "", "name", "lost+found"),
        ("not a topic-0/00000000000000000000.log", "", "name", "not a topic-0"),
        (
            f"{NAME}/00000000000000000000.log.cleaned",
            "",
            "leftover",
            f"{NAME}/00000000000000000000.log.cleaned",
        ),
        ("log-start-offset-checkpoint", "0\n1\nc-4p 1 9000\n", "checkpoint", NAME),
        ("recovery-point-offset-checkpoint", "0\n1\nc-4p 1 9000\n", "checkpoint", NAME),
    ],
)
def test_problems_of_small_files_and_names_are_reported(
    log_dir: Path, name: str, content: str, kind: str, file: str
) -> None:
    (log_dir / name).parent.mkdir(exist_ok=True)
    (log_dir / name).write_text(content)
    assert brief(log_dir) == [(kind, file, None)]


@pytest.mark.parametrize("base", [0, 5])
def test_files_of_a_deletion_before_a_clean_stop_are_normal(log_dir: Path, base: int) -> None:
    """Brokers of 3.9.2, 4.3.1 and 4.4.0 that stop within a minute after retention leave them."""
    for suffix in (LOG, INDEX, TIMEINDEX):
        (log_dir / NAME / f"{segment_file(base, suffix)}.deleted").touch()
    assert brief(log_dir) == []
    (log_dir / ".kafka_cleanshutdown").unlink()
    assert [kind for kind, _, _ in brief(log_dir)] == ["leftover"] * 3
    (log_dir / ".kafka_cleanshutdown").touch()
    index = log_dir / NAME / f"{segment_file(base, INDEX)}.deleted"
    index.rename(index.with_suffix(""))
    (log_dir / NAME / segment_file(base, LOG)).unlink(missing_ok=True)
    kinds = {kind for kind, file, _ in brief(log_dir) if file.endswith(".deleted")}
    assert kinds == {"leftover"}


def test_damaged_snapshot_is_reported_but_is_not_damage(log_dir: Path) -> None:
    snapshots = files(log_dir, SNAPSHOT)
    snapshots[0].write_bytes(snapshots[0].read_bytes()[:-1] + b"\x07")
    [found] = findings(log_dir)
    assert (found.kind, found.file, found.is_damage) == (
        Kind.SNAPSHOT,
        f"{NAME}/{snapshots[0].name}",
        False,
    )


def test_leader_epoch_above_the_checkpoint_is_reported(log_dir: Path) -> None:
    (log_dir / NAME / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert brief(log_dir) == []
    field(1, 12, ">i", 1)(log_dir / NAME)
    log = Log(log_dir / NAME, 1)
    assert brief(log_dir) == [("leader-epochs", f"{NAME}/{log.path.name}", log.position(1))]


def test_wrong_largest_timestamp_of_a_batch_is_reported(tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    records = [Record(5, T + 50, b"k", b"v"), Record(6, T + 60, b"k", b"v")]
    partition(log_dir / "t-0", {0: [batch(0, 4), encode_batch(records, max_timestamp=T + 61)]})
    [found] = findings(log_dir)
    assert (found.kind, found.first_offset, found.last_offset) == (Kind.TIMESTAMP, 5, 6)


def test_time_index_of_old_versions_may_name_the_record(tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    directory = partition(log_dir / "t-0", {0: [batch(0, 4), batch(10, 14)]})
    index = directory / segment_file(0, TIMEINDEX)
    assert index.read_bytes() == (T + 140).to_bytes(8) + (14).to_bytes(4)
    for offset, found in ((10, 0), (9, 1), (4, 1)):
        index.write_bytes((T + 140).to_bytes(8) + offset.to_bytes(4))
        assert brief(log_dir) == [("time-index", f"t-0/{index.name}", 0)] * found


def test_every_kind_of_finding_has_a_meaning() -> None:
    assert all(len(kind.meaning) > 60 for kind in Kind)


class Failing(LocalStorage):
    """A disk with a bad sector."""

    def __init__(self, bad: range) -> None:
        self._bad = bad

    def read_range(self, path: str, start: int, length: int) -> bytes:
        if start < self._bad.stop and self._bad.start < start + length:
            raise OSError(5, "Input/output error")
        return super().read_range(path, start, length)


def test_unreadable_bytes_are_reported(tmp_path: Path) -> None:
    batches = [batch(first, first + 4) for first in range(0, 500, 5)]
    partition(tmp_path / "t-0", {0: batches})
    sizes = list(accumulate(map(len, batches), initial=0))
    log = LogFile(
        scope=Scope(str(tmp_path), "t-0", "t", 0),
        name=segment_file(0, LOG),
        size=sizes[-1],
        base_offset=0,
    )
    bad = max(n for n, start in enumerate(sizes) if start < 8192)
    check = check_log(
        Failing(range(8192, 8704)), log, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES
    )
    [found] = check.findings
    assert (found.kind, found.message) == (Kind.UNREADABLE, "can't be read: Input/output error")
    assert found.position is not None
    # Rounded to pages: a page with a bad sector cannot be read at all.
    assert sizes[bad] - 4096 < found.position == sizes[(found.first_offset or 0) // 5] <= sizes[bad]
    assert check.sound_bytes == found.position


def test_batch_that_cannot_be_decompressed_is_found_without_reading_each_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of the time of a call passes before and after the small batches."""
    batches = [batch(first, first, codec=Codec.GZIP) for first in range(1000)]
    damaged = Log(partition(tmp_path / "t-0", {0: batches}), 0)
    damaged.replace_payload(300, bytes(40))
    calls: list[int] = []

    def counted(data: Bytes, rows: Rows, *, limit: int) -> Iterator[RecordBlocks]:
        calls.append(len(rows))
        return inflate_parts(data, rows, limit=limit)

    monkeypatch.setattr(logs, "inflate_parts", counted)
    log = LogFile(
        scope=Scope(str(tmp_path), "t-0", "t", 0),
        name=segment_file(0, LOG),
        size=len(damaged.data),
        base_offset=0,
    )
    check = check_log(LocalStorage(), log, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
    [found] = check.findings
    assert (found.kind, found.position) == (Kind.RECORDS, damaged.position(300))
    assert check.checked.records == 999
    assert len(calls) < 30


def test_missing_or_repeated_log_directory_is_refused(log_dir: Path, tmp_path: Path) -> None:
    storage = LocalStorage()
    assert find_log_dirs(storage, [f"{log_dir}/."]) == ((str(log_dir),), ())
    for paths in ([tmp_path], [log_dir, log_dir]):
        with pytest.raises(UsageError):
            find_log_dirs(storage, list(map(str, paths)))


def test_findings_that_a_broker_repairs_are_not_damage() -> None:
    finding = Scope("/d", "t-0", "t", 0).finding(
        Kind.CRC, "x.log", "expected a, found b", position=3
    )
    assert finding.is_damage
    assert not replace(finding, kind=Kind.TORN_TAIL).is_damage
    assert finding.file == "t-0/x.log"
