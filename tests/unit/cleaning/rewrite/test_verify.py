"""Verification finds every kind of damage to a staged segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import INDEX_BYTES, INTERVAL, batch, indexes, record
from winnow.cleaning.rewrite.verify import Meant, verify_staged
from winnow.errors import VerificationError, WinnowError
from winnow.logdir import batches
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.wire.batch import Codec

BASE = 100
BATCHES = [
    batch(*(record(BASE + 10 * i + j, b"key-%d" % j, b"v" * 30) for j in range(3)), codec=codec)
    for i, codec in enumerate([Codec.NONE, Codec.ZSTD, Codec.NONE, Codec.LZ4, Codec.NONE])
]
RECORDS = 3 * len(BATCHES)
END = BASE + 10 * len(BATCHES)

Paths = dict[str, Path]


@pytest.fixture
def staged(tmp_path: Path) -> Paths:
    return write(tmp_path, BATCHES)


def write(directory: Path, batches: list[bytes]) -> Paths:
    log = b"".join(batches)
    paths = {
        suffix: directory / f"{segment_file(BASE, suffix)}.attempt"
        for suffix in (LOG, INDEX, TIMEINDEX)
    }
    for suffix, content in {LOG: log, **indexes(log, BASE)}.items():
        paths[suffix].write_bytes(content)
    return paths


def verify(staged: Paths, **changes: int) -> None:
    wanted: dict[str, Any] = {
        "base_offset": BASE,
        "end_offset": END,
        "log_bytes": staged[LOG].stat().st_size,
        "records": RECORDS,
        "index_interval_bytes": INTERVAL,
        "segment_index_bytes": INDEX_BYTES,
    }
    verify_staged({suffix: str(path) for suffix, path in staged.items()}, Meant(**wanted | changes))


def test_sound_segment_passes(staged: Paths) -> None:
    verify(staged)


def test_sound_segment_passes_at_any_read_size(
    staged: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in (1, 2, 4, 5):
        monkeypatch.setattr(batches, "BLOCK_ROWS", rows)
        verify(staged)


def test_empty_segment_passes(tmp_path: Path) -> None:
    verify(write(tmp_path, []), records=0)


@pytest.mark.parametrize("suffix", [LOG, INDEX, TIMEINDEX])
def test_flipped_bit_in_any_file_is_refused(staged: Paths, suffix: str) -> None:
    """A batch's CRC does not cover its leader epoch, so a wrong one cannot be detected."""
    sound = staged[suffix].read_bytes()
    starts = [sum(map(len, BATCHES[:i])) for i in range(len(BATCHES))]
    leader_epochs = (
        {start + 12 + i for start in starts for i in range(4)} if suffix == LOG else set()
    )
    missed = []
    for at in range(len(sound)):
        staged[suffix].write_bytes(
            sound[:at] + bytes([sound[at] ^ (1 << at % 8)]) + sound[at + 1 :]
        )
        try:
            verify(staged)
        except WinnowError:
            continue
        missed.append(at)
    assert set(missed) <= leader_epochs, [at for at in missed if at not in leader_epochs]


@pytest.mark.parametrize("suffix", [LOG, INDEX, TIMEINDEX])
@pytest.mark.parametrize(
    "change", [lambda data: data[:-1], lambda data: data + b"\0", lambda _: b""]
)
def test_file_of_wrong_length_is_refused(
    staged: Paths, suffix: str, change: Callable[[bytes], bytes]
) -> None:
    size = staged[LOG].stat().st_size
    staged[suffix].write_bytes(change(staged[suffix].read_bytes()))
    with pytest.raises(VerificationError):
        verify(staged, log_bytes=size)


@pytest.mark.parametrize("gone", range(len(BATCHES)))
def test_missing_batch_is_refused_even_if_indexes_match(tmp_path: Path, gone: int) -> None:
    staged = write(tmp_path, BATCHES[:gone] + BATCHES[gone + 1 :])
    with pytest.raises(VerificationError, match=f"expected {RECORDS}, found {RECORDS - 3}"):
        verify(staged)


def test_extra_record_is_refused(tmp_path: Path) -> None:
    staged = write(tmp_path, [*BATCHES, batch(record(END))])
    with pytest.raises(VerificationError, match=f"expected {RECORDS}, found {RECORDS + 1}"):
        verify(staged, end_offset=END + 1)


def test_reordered_batches_are_refused(staged: Paths) -> None:
    staged[LOG].write_bytes(b"".join([BATCHES[1], BATCHES[0], *BATCHES[2:]]))
    with pytest.raises(VerificationError, match="offset"):
        verify(staged)


def test_offset_of_the_next_segment_is_refused(staged: Paths) -> None:
    last = END - 10 + 2
    verify(staged, end_offset=last + 1)
    with pytest.raises(VerificationError, match=f"below: expected {last}, found {last}"):
        verify(staged, end_offset=last)


def test_empty_batch_beyond_the_end_is_refused(tmp_path: Path) -> None:
    staged = write(
        tmp_path, [*BATCHES, encode_batch([], base_offset=END, last_offset=END, producer_id=5)]
    )
    with pytest.raises(VerificationError, match="last offset below"):
        verify(staged)


def test_huge_base_offset_fails_verification(staged: Paths) -> None:
    data = bytearray(staged[LOG].read_bytes())
    data[len(data) - len(BATCHES[-1])] = 1
    staged[LOG].write_bytes(bytes(data))
    with pytest.raises(VerificationError):
        verify(staged, end_offset=2**62)


def test_error_names_file_and_position(staged: Paths) -> None:
    data = bytearray(staged[LOG].read_bytes())
    data[len(BATCHES[0]) + 70] ^= 1
    staged[LOG].write_bytes(bytes(data))
    with pytest.raises(VerificationError, match=rf"CRC.*{staged[LOG]} at byte {len(BATCHES[0])}"):
        verify(staged)
