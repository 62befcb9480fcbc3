from __future__ import annotations

import struct
from pathlib import Path

import crcmod.predefined
import pytest

from winnow.errors import CorruptLogError
from winnow.logdir.snapshots import decode_snapshot, encode_snapshot, read_snapshot
from winnow.state import ProducerEntry
from winnow.storage.local import LocalStorage

ENTRIES = (
    ProducerEntry(5, 2, 41, 99, 9, 1_700_000_000_000, -1, -1),
    ProducerEntry(6, 0, -1, -1, 0, 1, 3, 77),
)


def test_layout_is_kafkas() -> None:
    """S1.9, written out by hand."""
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 6, 0, -1, -1, 0, 1, 3, 77)
    crc = crcmod.predefined.mkPredefinedCrcFun("crc-32c")(body)
    assert encode_snapshot(ENTRIES[1:]) == struct.pack(">hI", 1, crc) + body
    assert len(encode_snapshot(ENTRIES)) == 10 + 2 * 46


def test_snapshot_reads_back_as_written(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(encode_snapshot(ENTRIES))
    assert read_snapshot(LocalStorage(), f"{tmp_path}/s") == ENTRIES
    assert decode_snapshot(encode_snapshot(()), where="s") == ()


@pytest.mark.parametrize("at", [0, 1, 3, 8, 9, 12, 60, 101])
def test_changed_byte_is_refused(at: int) -> None:
    data = bytearray(encode_snapshot(ENTRIES))
    data[at] ^= 1
    with pytest.raises(CorruptLogError, match="damaged producer snapshot"):
        decode_snapshot(bytes(data), where="s")


@pytest.mark.parametrize("length", [0, 9, 10, 56, 101])
def test_torn_snapshot_is_refused(length: int) -> None:
    with pytest.raises(CorruptLogError):
        decode_snapshot(encode_snapshot(ENTRIES)[:length], where="s")
