from pathlib import Path

import pytest

from tests.fixtures.data import unpacked
from tests.twins.encoding import encode_batch
from tests.unit.wire.logs import record
from winnow.errors import CorruptLogError
from winnow.logdir import batches
from winnow.logdir.batches import HeaderWalk, read_batches, records_of
from winnow.storage.local import LocalStorage
from winnow.storage.segment_io import map_range
from winnow.wire.batch import Codec
from winnow.wire.buffers import as_bytes

BATCHES = [
    encode_batch([record(i, value=bytes(50 * i))], codec=Codec.LZ4 if i % 2 else Codec.NONE)
    for i in range(20)
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(BATCHES))
    return path


@pytest.mark.parametrize("piece_bytes", [1, 17, 61, 200, 1 << 20])
def test_all_batches_are_read_at_any_piece_size(log: Path, piece_bytes: int) -> None:
    size = log.stat().st_size
    offsets, positions = [], []
    for piece in read_batches(LocalStorage(), str(log), size=size, piece_bytes=piece_bytes):
        for i in range(len(piece.rows)):
            positions.append(piece.position(i))
            offsets += [found.offset for found in records_of(piece, i, str(log))]
    assert offsets == list(range(20))
    assert positions == [sum(map(len, BATCHES[:i])) for i in range(20)]


def test_reading_can_start_at_a_later_batch(log: Path) -> None:
    start = len(BATCHES[0])
    [piece] = read_batches(
        LocalStorage(), str(log), size=log.stat().st_size, start=start, least_offset=1
    )
    assert piece.position(0) == start
    assert len(piece.rows) == 19


def failure(log: Path, data: bytes, *, size: int | None = None) -> tuple[int, str]:
    """Return the number of batches before the error, and its message."""
    log.write_bytes(data)
    count = 0
    with pytest.raises(CorruptLogError) as caught:  # noqa: PT012 - counts on the way
        for piece in read_batches(
            LocalStorage(), str(log), size=len(data) if size is None else size, piece_bytes=100
        ):
            count += len(piece.rows)
    return count, str(caught.value)


def test_torn_end_is_refused_with_its_position(log: Path) -> None:
    whole = b"".join(BATCHES)
    count, told = failure(log, whole[:-1])
    assert count == 19
    assert f"{log} at byte {len(whole) - len(BATCHES[-1])}" in told
    assert (
        f"a whole batch of {len(BATCHES[-1])} bytes, found {len(BATCHES[-1]) - 1} bytes up to the "
        "end" in told
    )


@pytest.mark.parametrize("left", [1, 12, 17, 25])
def test_fragment_shorter_than_any_batch_is_refused(log: Path, left: int) -> None:
    _, told = failure(log, BATCHES[0][:left])
    assert "at least 12 bytes and 14 (v0), 22 (v1), or 61 bytes (v2), found" in told


def test_huge_batch_size_is_refused_without_reading_it(log: Path) -> None:
    wild = BATCHES[0][:8] + (2**31 - 1).to_bytes(4) + BATCHES[0][12:]
    count, told = failure(log, BATCHES[0] + wild[:7] + b"\1" + wild[8:] + bytes(1000))
    assert count == 1
    assert f"a whole batch of {2**31 + 11} bytes" in told


def test_truncated_file_is_refused(log: Path) -> None:
    count, told = failure(log, b"".join(BATCHES[:3]), size=10_000)
    assert count == 3
    assert "became shorter while it was being read" in told


def test_descending_offsets_are_refused(log: Path) -> None:
    count, told = failure(log, BATCHES[1] + BATCHES[0])
    assert count == 1
    assert "an offset of 2 or more" in told


@pytest.mark.parametrize("at_once", [128, 1_000, 4_096, 1 << 20])
@pytest.mark.parametrize("most", [1, 7, 4_096])
@pytest.mark.parametrize("cut", [0, 5])
def test_walk_that_loads_piece_by_piece_equals_the_plain_walk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_once: int, most: int, cut: int
) -> None:
    """Pieces end inside batches, and batches are larger than a piece."""
    monkeypatch.setattr(batches, "_LOADED_AT_ONCE", at_once)
    logs = (unpacked("before-clean") / "clean").glob("c-*/*.log")
    log = max(logs, key=lambda path: path.stat().st_size)
    data = log.read_bytes() * 2  # offsets descend in the middle
    path = tmp_path / "log"
    path.write_bytes(data[: len(data) - cut])
    for size in (len(data) // 2 - cut, len(data) - cut):
        with map_range(str(path), 0, size, gradually=True) as buf:
            loading = HeaderWalk(buf, 0, most=most, gradually=True, passes=True)
            found = [row for rows in loading for row in rows.tolist()]
            del buf
        plain = HeaderWalk(as_bytes(data[:size]), 0, most=most)
        assert found == [row for rows in plain for row in rows.tolist()]
        assert (loading.end, loading.least_offset, loading.status) == (
            plain.end,
            plain.least_offset,
            plain.status,
        )
