"""A log directory that a broker holds locked is read as it was at one moment (S8.11)."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.data import copy_log_dir
from tests.lock_holder import broker
from winnow.errors import CorruptLogError
from winnow.logdir.listing import list_segments
from winnow.logdir.live.broker import RunningBroker
from winnow.logdir.live.read_view import open_read_views, view_notes
from winnow.logdir.lock import broker_on, lock_log_dir, lock_to_read
from winnow.logdir.meta import was_shut_down_cleanly
from winnow.storage.live.page_cache import by_mincore, cached_pages, read_at
from winnow.storage.live.read_view import use_views, view_of, write_views
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places
from winnow.storage.segment_io import load, map_range, release
from winnow.storage.throttle import Throttle, throttled

PARTITION = "c-tomb-0"
BROKER = RunningBroker("a broker")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "log-dir", only=[PARTITION, "d-time-0"])


def test_running_broker_is_detected_without_taking_the_lock(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = fcntl.fcntl

    def recorded(fd: int, command: int, argument: bytes) -> bytes:
        asked.append(command)
        return real(fd, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", recorded)
    assert broker_on(str(log_dir)) is None
    with broker(log_dir):
        assert broker_on(str(log_dir)) is not None
    assert {*asked} == {fcntl.F_OFD_GETLK}
    with lock_log_dir(str(log_dir)):
        assert broker_on(str(log_dir)) is None, "a run of Winnow is no broker"


@pytest.mark.parametrize("above", ["", "{}/"])
def test_running_broker_is_described_by_its_command(
    log_dir: Path, tmp_path: Path, above: str
) -> None:
    """Its class path is thousands of bytes long, and the file may be relative."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "server.properties").touch()
    file = f"{config}/server.properties"
    given = f"{above.format(tmp_path)}config/server.properties"
    with broker(log_dir, given, "--override", "log.dirs=/x", cwd=tmp_path):
        found = broker_on(str(log_dir))
        assert found is not None
        assert ": java kafka.Kafka " in found.program
        assert found.properties == file
        (config / "server.properties").unlink()
        gone = broker_on(str(log_dir))
        assert gone is not None
        assert gone.properties is None
    with broker(log_dir):
        other = broker_on(str(log_dir))
        assert other is not None
        assert other.properties is None


def test_stopped_log_dir_is_locked_and_has_no_read_view(log_dir: Path) -> None:
    with lock_to_read(str(log_dir)):
        assert view_of(str(log_dir)) is None
        assert view_notes() == ()


def test_read_view_excludes_cleaned_swap_and_deleted_files(log_dir: Path) -> None:
    partition = log_dir / PARTITION
    before = {entry.name for entry in LocalStorage().list_dir(str(partition))}
    log = min(partition.glob("*.log"))
    for name in (f"{log.name}.cleaned", f"{log.name}.swap", f"{log.stem}.index.deleted"):
        (partition / name).write_bytes(b"x")
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    with broker(log_dir), lock_to_read(str(log_dir)):
        assert {entry.name for entry in Places().list_dir(str(partition))} == before
        assert was_shut_down_cleanly(Places(), str(log_dir))
        (note,) = view_notes()
        assert "beside its running broker" in note
    assert not was_shut_down_cleanly(Places(), str(log_dir))


def test_read_view_keeps_replaced_and_deleted_segments_readable(log_dir: Path) -> None:
    """Also in a process that did not open them."""
    log, other = sorted((log_dir / PARTITION).glob("*.log"), key=lambda one: -one.stat().st_size)[
        :2
    ]
    saved = log.read_bytes(), other.read_bytes()
    code = (
        "import sys; from winnow.storage.live.read_view import use_views; "
        "from winnow.storage.places import Places; use_views(sys.argv[1]); "
        "[sys.stdout.buffer.write(Places().read_bytes(path)) for path in sys.argv[2:]]"
    )
    with broker(log_dir), lock_to_read(str(log_dir)):
        written = write_views(str(log_dir.parent))
        assert written
        (log_dir / "new").write_bytes(b"another segment")
        (log_dir / "new").replace(log)
        other.unlink()
        assert (Places().read_bytes(str(log)), Places().read_bytes(str(other))) == saved
        command = [sys.executable, "-c", code, written, str(log), str(other)]
        child = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        assert child.stdout == b"".join(saved)
        assert os.stat(written).st_mode & 0o777 == 0o600
    assert log.read_bytes() == b"another segment"


def test_read_view_excludes_partitions_created_later(log_dir: Path) -> None:
    with broker(log_dir), lock_to_read(str(log_dir)):
        (log_dir / "later-0").mkdir()
        (log_dir / "later-0" / "00000000000000000000.log").touch()
        assert "later-0" not in {entry.name for entry in Places().list_dir(str(log_dir))}
        with pytest.raises(FileNotFoundError):
            Places().list_dir(str(log_dir / "later-0"))


def test_partition_that_is_just_being_made_counts_as_changing(log_dir: Path) -> None:
    """A broker makes the directory and an empty segment first, then `partition.metadata`."""
    for name in ("new-0", "old-0"):
        (log_dir / name).mkdir()
        (log_dir / name / f"{0:020d}.log").touch()
    os.utime(log_dir / "old-0" / f"{0:020d}.log", (1, 1))
    with open_read_views({str(log_dir): BROKER}) as (view,):
        names = {entry.name for entry in Places().list_dir(str(log_dir))}
    assert (view.changing, {"new-0", "old-0"} & names) == (("new-0",), {"old-0"})


def test_read_view_is_read_only(log_dir: Path) -> None:
    path = str(log_dir / PARTITION / "new")
    with broker(log_dir), lock_to_read(str(log_dir)):
        for change in (
            lambda: Places().create(path, b""),
            lambda: Places().unlink(path),
            lambda: Places().mkdir(path),
            lambda: Places().rename(path, path + "2"),
        ):
            with pytest.raises(OSError, match="Read-only"):
                change()
    assert not Path(path).exists()


@pytest.mark.parametrize("gradually", [False, True])
def test_truncated_segment_raises_an_error_instead_of_sigbus(
    log_dir: Path, *, gradually: bool
) -> None:
    """Were it mapped, reading would end this process with SIGBUS."""
    log = max((log_dir / PARTITION).glob("*.log"))
    with log.open("ab") as file:
        file.write(bytes(2**20))
    data = log.read_bytes()
    with broker(log_dir), open_read_views({str(log_dir): BROKER}):
        seen = Places().entry(str(log)).size
        assert seen < len(data), "the zeros are no batches"
    log = min((log_dir / PARTITION).glob("*.log"))
    log.write_bytes(data * 3)
    with broker(log_dir), open_read_views({str(log_dir): BROKER}):
        size = Places().entry(str(log)).size
        with map_range(str(log), 0, size, gradually=gradually) as buf:
            os.truncate(log, 100)
            if gradually:
                with pytest.raises(CorruptLogError, match="became shorter"):
                    load(buf, 0, size)
            else:
                assert bytes(buf) == data * 3
            del buf
        with pytest.raises(CorruptLogError, match="became shorter"):  # noqa: SIM117
            with map_range(str(log), 0, size):
                pass


def test_gradual_copy_has_the_bytes_of_the_file(log_dir: Path) -> None:
    log = min((log_dir / PARTITION).glob("*.log"))
    log.write_bytes(np.random.default_rng(7).bytes(5 * 2**20 + 17))
    data = log.read_bytes()
    with (
        broker(log_dir),
        open_read_views({str(log_dir): BROKER}),
        map_range(str(log), 4711, len(data), gradually=True) as buf,
    ):
        at = 0
        while at < len(buf):
            end = min(len(buf), at + 700_001)
            load(buf, at, end)
            assert bytes(buf[at:end]) == data[4711 + at : 4711 + end]
            release(buf, end)
            at = end
        load(buf, 0, 10)
        assert bytes(buf[:10]) == data[4711:4721]
        del buf


def test_read_keeps_the_page_cache_unchanged() -> None:
    """On the disk of the checkout: what is in memory anyway has no cache."""
    piece = 2**20
    with tempfile.TemporaryFile(dir=Path(__file__).parents[3]) as file:
        file.write(os.urandom(4 * piece))
        file.flush()
        fd = file.fileno()
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if cached_pages(fd, 0, 4 * piece):
            pytest.skip("this file system keeps its pages in memory")
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(fd, piece, 2 * piece)
        assert len(read_at(fd, 0, 4 * piece)) == 4 * piece
        pages = [cached_pages(fd, at * piece, piece) for at in range(4)]
        assert [count > 0 for count in pages] == [False, False, True, False]


def test_mincore_counts_the_same_pages_as_cachestat() -> None:
    with tempfile.TemporaryFile(dir=Path(__file__).parents[3]) as file:
        file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())
        for _ in range(2):
            counted = cached_pages(file.fileno(), 0, 2**20)
            assert by_mincore(file.fileno(), 0, 2**20) == counted
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_named_pipe_is_reported_as_for_a_stopped_broker(log_dir: Path) -> None:
    path = log_dir / PARTITION / "leader-epoch-checkpoint"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CorruptLogError) as stopped:
        Places().read_bytes(str(path))
    with broker(log_dir), open_read_views({str(log_dir): BROKER}):
        with pytest.raises(CorruptLogError) as running:
            Places().read_bytes(str(path))
        assert str(running.value) == str(stopped.value)


def test_read_view_is_throttled(log_dir: Path) -> None:
    slept: list[float] = []
    slow = Throttle(2**20, clock=lambda: 0.0, sleep=slept.append)
    log = min((log_dir / PARTITION).glob("*.log"))
    log.write_bytes(bytes(3 * 2**20))
    with broker(log_dir), open_read_views({str(log_dir): BROKER}), throttled(slow):
        Places().read_range(str(log), 0, 2**20)
    assert sum(slept) == pytest.approx(1)


def test_read_view_keeps_damage_of_the_active_segment(log_dir: Path) -> None:
    """Only an end without whole batches may be a write that goes on."""
    log = max((log_dir / PARTITION).glob("*.log"))
    closed = max((log_dir / PARTITION).glob("*.log"), key=lambda one: one.stat().st_size)
    data = bytearray(closed.read_bytes())
    (log.parent / closed.name).write_bytes(data)
    size = int.from_bytes(data[8:12]) + 12
    data[size + 8 : size + 12] = (2**30).to_bytes(4)  # the second batch is too long
    for path in sorted(log.parent.glob("*.log")):
        if path.name > closed.name:
            for of_segment in log.parent.glob(f"{path.stem}*"):
                of_segment.unlink()
    closed.write_bytes(data)
    closed.with_suffix(".index").write_bytes(b"")
    with broker(log_dir), open_read_views({str(log_dir): BROKER}):
        assert Places().entry(str(closed)).size == len(data)


def test_read_view_lists_the_same_segments_as_a_stopped_broker(log_dir: Path) -> None:
    for name in (PARTITION, "d-time-0"):
        stopped = list_segments(Places(), str(log_dir / name))
        with broker(log_dir), open_read_views({str(log_dir): BROKER}):
            assert list_segments(Places(), str(log_dir / name)) == stopped


def test_read_view_keeps_no_copy_of_indexes(log_dir: Path) -> None:
    """A sparse index of 512 MiB takes no room on the disk, and a broker has many partitions."""
    log = max((log_dir / PARTITION).glob("*.log"), key=lambda one: one.stat().st_size)
    for path in (log_dir / PARTITION).iterdir():
        if path.stem.isdigit() and path.stem != log.stem:
            path.unlink()
    one = (1).to_bytes(4)
    for suffix, last in ((".index", one + bytes(4)), (".timeindex", bytes(8) + one)):
        with log.with_suffix(suffix).open("wb") as index:
            index.truncate((24 << 20) - len(last))  # a multiple of both sizes
            index.seek(0, os.SEEK_END)
            index.write(last)
    with broker(log_dir), open_read_views({str(log_dir): BROKER}) as (view,):
        files = view.directories[str(log_dir / PARTITION)]
        assert files[log.with_suffix(".index").name].entry.size == 24 << 20
        assert len(pickle.dumps(view)) < 100_000
        data = Places().read_bytes(str(log.with_suffix(".timeindex")))
        with map_range(str(log.with_suffix(".timeindex")), 0, len(data)) as mapped:
            assert mapped.tobytes() == data
    assert len(data) == (24 << 20) + 12, "the last entry that a stop would append is in no file"


@pytest.mark.parametrize("base", [2**31 - 2, 2**31 + 7, 2**62])
def test_active_segment_may_begin_at_any_offset(log_dir: Path, base: int) -> None:
    partition = log_dir / PARTITION
    (log_dir / "replication-offset-checkpoint").unlink()
    closed = max(partition.glob("*.log"), key=lambda one: one.stat().st_size)
    data, position = bytearray(closed.read_bytes()), 0
    index = closed.with_suffix(".index").read_bytes()
    shift = base - int(closed.stem)
    while position < len(data):
        moved = int.from_bytes(data[position : position + 8]) + shift
        data[position : position + 8] = moved.to_bytes(8)
        position += 12 + int.from_bytes(data[position + 8 : position + 12])
    for path in partition.iterdir():
        if path.stem.isdigit():
            path.unlink()
    (partition / f"{base:020}.log").write_bytes(data)
    (partition / f"{base:020}.index").write_bytes(index + bytes(80))
    (partition / f"{base:020}.timeindex").write_bytes(b"")
    with broker(log_dir), open_read_views({str(log_dir): BROKER}):
        assert Places().read_bytes(str(partition / f"{base:020}.index")) == index
        (segment,) = list_segments(Places(), str(partition)).segments
    assert (segment.base_offset, segment.log_bytes) == (base, len(data))


def test_use_views_without_a_file_removes_all_read_views(log_dir: Path) -> None:
    use_views(None)
    assert view_of(str(log_dir)) is None


def test_offsets_and_snapshots_above_the_log_end_after_a_truncation_are_ignored(
    log_dir: Path,
) -> None:
    """A broker writes checkpoints every few seconds. Of a log that is at rest since, they count."""
    partition = log_dir / PARTITION
    end = 1000
    high_watermarks = log_dir / "replication-offset-checkpoint"
    content = high_watermarks.read_text()
    assert f"c-tomb 0 {end}\n" in content
    high_watermarks.write_text(content.replace(f"c-tomb 0 {end}", f"c-tomb 0 {end + 5}"))
    snapshot = partition / f"{end + 5:020}.snapshot"
    snapshot.write_bytes(min(partition.glob("*.snapshot")).read_bytes())
    active = max(partition.glob("*.log"))
    with broker(log_dir):
        for later, offset in ((-1, end + 5), (1, end)):
            os.utime(active, ns=(0, snapshot.stat().st_mtime_ns + later * 1_000_000_000))
            with lock_to_read(str(log_dir)):
                seen = Places().read_bytes(str(high_watermarks)).decode()
                assert f"c-tomb 0 {offset}\n" in seen
                assert seen.replace(f"0 {offset}", f"0 {end}") == content
                names = {entry.name for entry in Places().list_dir(str(partition))}
                assert (snapshot.name in names) == (offset > end)
        partition.rename(log_dir / f"{PARTITION}.{'0' * 32}-future")
        with lock_to_read(str(log_dir)):
            assert Places().read_bytes(str(high_watermarks)).decode() == content
