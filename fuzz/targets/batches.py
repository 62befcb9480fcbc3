"""Batches of all formats: walked, decompressed, scanned and filtered by kernels and by their plain twins alike."""

from __future__ import annotations

import random
import struct
import zlib

import numpy as np

from fuzz.targets.base import LIMIT, Target, require, same_outcome
from tests.unit.wire.legacy_logs import entry, random_legacy_log
from tests.unit.wire.logs import NOW, random_batch, random_log
from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    FRAME,
    FRAME_SIZE,
    HEADER_V2_SIZE,
    MAGIC_AT,
    MAX_MAGIC,
    RECORD_OVERHEAD_V0,
    Codec,
)
from winnow.wire.buffers import Bytes, Rows, as_bytes
from winnow.wire.codecs import compress
from winnow.wire.control_records import decode_control, decode_control_plain
from winnow.wire.crc import crc32c
from winnow.wire.filtering import Filtered, filter_batches
from winnow.wire.filtering_plain import filter_batches_plain
from winnow.wire.inflate import RecordBlocks, inflate
from winnow.wire.legacy_plain import legacy_records
from winnow.wire.plain import decode_batch, read_records
from winnow.wire.records import scan_records, scan_records_plain
from winnow.wire.walk import WalkStatus, describe, first_bad_crc, walk_batches, walk_batches_plain

SECRET = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
_ROWS = 64
_COLUMNS = ("hash", "offset", "null_key", "null_value", "batch")
_COUNTS = ("data", "records_in", "records_out", "tombstones_out", "copied", "rewritten", "emptied", "dropped")


def walked(buf: Bytes, start: int = 0, least_offset: int = 0) -> Rows:
    """All batches, as the kernel and its twin have them. Raises CorruptLogError unless they fill the bytes."""
    out, twin = np.zeros(_ROWS, BATCH), np.zeros(_ROWS, BATCH)
    found = walk_batches(buf, start, least_offset, out)
    require(found == walk_batches_plain(buf, start, least_offset, twin), f"walks differ: {found}")
    count, position, status = found
    require(bool((out[:count] == twin[:count]).all()), "rows of the walks differ")
    require(0 <= position <= len(buf) or start > len(buf), "the walk left the bytes")
    if status not in (WalkStatus.FULL, WalkStatus.END):
        raise describe(status, buf, position, least_offset=least_offset, file_name="fuzz")
    return out[:count]


def check_log(data: bytes) -> None:
    """Byte 0: whether CRCs are made right first; the rest is a log of any formats."""
    buf = as_bytes(sealed(data[1:]) if data[:1] >= b"\x80" else data[1:])
    rows = walked(buf)
    bad = first_bad_crc(buf, rows)
    if bad >= 0:
        raise CorruptLogError("wrong CRC", found=str(bad))
    check_batches(buf, rows, random.Random(zlib.crc32(data)))


def check_walk(data: bytes) -> None:
    """Bytes 0-7: the least offset; then a log."""
    least = int.from_bytes(data[:8], "big", signed=True) if data[0:1] < b"\x40" else 0
    walked(as_bytes(data[8:]), least_offset=least)


def check_records(data: bytes) -> None:
    """Byte 0: a codec; 52 bytes: the header without length, magic and CRC; then records."""
    buf = as_bytes(v2_batch(data))
    rows = walked(buf)
    require(first_bad_crc(buf, rows) < 0, "a batch with its own CRC is refused")
    check_batches(buf, rows, random.Random(zlib.crc32(data)))


def check_wrapper(data: bytes) -> None:
    """Byte 0: codec and magic; 8 bytes: its offset; byte 9: whether the entries' CRCs are made right; then entries."""
    head = data[:1] or b"\x00"
    magic, codec, bits = head[0] >> 7, Codec(1 + (head[0] & 0x7F) % 3), (head[0] >> 2) & 0x08
    offset = int.from_bytes(data[1:9], "big", signed=True)
    entries = sealed(data[10:]) if data[9:10] >= b"\x40" else data[10:]
    payload = compress(codec, entries)
    if magic == 0 and codec == Codec.LZ4:
        payload = payload[:6] + bytes([payload[6] ^ 0xFF]) + payload[7:]
    buf = as_bytes(entry(offset, magic, None, payload, attributes=bits | codec))
    check_batches(buf, walked(buf), random.Random(zlib.crc32(data)))


def check_batches(buf: Bytes, rows: Rows, rng: random.Random) -> None:
    """Whole batches with CRCs that are right: twins agree on each record, and what is to stay does stay."""
    legacy = rows["magic"] < MAX_MAGIC
    blocks = _inflated(buf, rows, legacy=bool(legacy.any()))
    rows = blocks.rows
    both = same_outcome(
        lambda: scan_records(blocks, rows, SECRET, check_crc=True),
        lambda: scan_records_plain(blocks, rows, SECRET, check_crc=True),
        "scan",
    )
    if both is None:
        raise CorruptLogError("records can't be read")
    for name in _COLUMNS:
        require(bool((getattr(both[0], name) == getattr(both[1], name)).all()), f"scans differ in {name}")
    columns = both[0]
    if not legacy.any():
        _check_control(blocks, rows)
    keep = np.array([rng.random() < 0.6 for _ in range(len(columns))], np.bool_)
    keep |= np.repeat((rows["attributes"] & CONTROL) != 0, rows["record_count"])
    retention = np.array([rng.randrange(3) for _ in range(len(rows))], np.int8)
    cause = np.array([rng.random() < 0.2 for _ in range(len(rows))], np.bool_)
    deletes = rng.random() < 0.5
    for kept, which in ((keep, retention), (np.ones_like(keep), np.ones_like(retention))):
        settings = {"now": NOW, "delete_retention_ms": 1000, "horizon_cause": cause, "retain_legacy_deletes": deletes}
        filtered = same_outcome(
            lambda kept=kept, which=which, s=settings: filter_batches(blocks, rows, kept, which, **s),
            lambda kept=kept, which=which, s=settings: filter_batches_plain(blocks, rows, kept, which, **s),
            "filter",
        )
        if filtered is not None:
            _check_filtered(*filtered)


def _inflated(buf: Bytes, rows: Rows, *, legacy: bool) -> RecordBlocks:
    if not legacy:
        return inflate(buf, rows, limit=LIMIT)
    # The twin of the conversion takes one batch at a time: whatever it refuses, and each record, must be the same.
    single = []
    for i in range(len(rows)):
        if rows["magic"][i] < MAX_MAGIC:
            single.append(
                same_outcome(
                    lambda i=i: inflate(buf, rows[i : i + 1], limit=LIMIT),
                    lambda i=i: legacy_records(buf, rows[i], limit=LIMIT),
                    "conversion",
                )
            )
            if single[-1] is None:
                raise CorruptLogError("v0 or v1 can't be read")
            blocks, records = single[-1]
            mine = read_records(blocks.area(0), blocks.rows[0])
            require(mine == records, "conversion differs from its twin")
    return inflate(buf, rows, limit=LIMIT)


def _check_control(blocks: RecordBlocks, rows: Rows) -> None:
    """What its twin can read of control batches, the kernel reads alike; the twin is the stricter one."""
    chosen = np.flatnonzero((rows["attributes"] & CONTROL) != 0)
    for i in chosen.tolist():
        one = RecordBlocks(
            rows=rows[i : i + 1],
            raw=blocks.raw,
            inflated=blocks.inflated,
            compressed=blocks.compressed[i : i + 1],
            begin=blocks.begin[i : i + 1],
            end=blocks.end[i : i + 1],
        )
        both = same_outcome(
            lambda one=one: decode_control(one, one.rows),
            lambda one=one: decode_control_plain(one, one.rows),
            "control",
        )
        if both is not None:
            for name in ("type", "coordinator_epoch", "timestamp"):
                require(bool((getattr(both[0], name) == getattr(both[1], name)).all()), f"control differs in {name}")


def _check_filtered(mine: Filtered, twin: Filtered) -> None:
    for name in _COUNTS:
        found, wanted = getattr(mine, name), getattr(twin, name)
        same = bytes(found) == bytes(wanted) if name == "data" else found == wanted
        require(same, f"filters differ in {name}: {found} and {wanted}")
    rows = np.zeros(_ROWS, BATCH)
    count, position, status = walk_batches(mine.data, 0, 0, rows)
    require((position, status) == (len(mine.data), WalkStatus.END), f"what was filtered can't be walked: {status.name}")
    require(bool((rows[:count] == mine.batches).all()), "rows of what was filtered are not those of its bytes")
    require(first_bad_crc(mine.data, rows[:count]) < 0, "what was filtered has a wrong CRC")
    again = inflate(mine.data, rows[:count], limit=4 * LIMIT)
    require(len(scan_records(again, again.rows, SECRET)) == mine.records_out, "records of what was filtered were lost")


def check_decode(data: bytes) -> None:
    """One batch by the plain reader: byte 0 as in `check_log`."""
    decode_batch(sealed(data[1:]) if data[:1] >= b"\x80" else data[1:], 0, limit=LIMIT)


def v2_batch(data: bytes) -> bytes:
    """A batch with the right length and CRC, from the input of `check_records`."""
    codec = Codec((data[:1] or b"\x00")[0] % 5)
    base, epoch, rest = data[1:9].ljust(8, b"\x00"), data[9:13].ljust(4, b"\x00"), data[13:53].ljust(40, b"\x00")
    payload = compress(codec, data[53:])
    rest = rest[:1] + bytes([rest[1] & ~CODEC_MASK | codec]) + rest[2:]
    length = struct.pack(">i", HEADER_V2_SIZE - FRAME_SIZE + len(payload))
    return sealed(base + length + epoch + bytes([MAX_MAGIC]) + bytes(4) + rest + payload)


def sealed(data: bytes) -> bytes:
    """The log with the right CRC for every batch that lies whole in it."""
    out = bytearray(data)
    at = 0
    while len(out) - at > MAGIC_AT:
        _, length = FRAME.unpack_from(out, at)
        end = at + FRAME_SIZE + length
        if length < RECORD_OVERHEAD_V0 or end > len(out):
            break
        if out[at + MAGIC_AT] == MAX_MAGIC and length >= HEADER_V2_SIZE - FRAME_SIZE:
            crc = int(crc32c(as_bytes(bytes(out)), at + ATTRIBUTES_AT, end))
            struct.pack_into(">I", out, at + CRC_AT, crc)
        elif out[at + MAGIC_AT] < MAX_MAGIC:
            struct.pack_into(">I", out, at + FRAME_SIZE, zlib.crc32(out[at + MAGIC_AT : end]))
        at = end
    return bytes(out)


def log_seeds() -> list[bytes]:
    logs = [b"".join(random_log(seed)) for seed in range(60)] + [
        b"".join(random_legacy_log(seed)) for seed in range(40)
    ]
    return [flag + log for log in logs if len(log) < 1500 for flag in (b"\x00", b"\x80")]


def walk_seeds() -> list[bytes]:
    return [bytes(8) + seed[1:] for seed in log_seeds()]


def records_seeds() -> list[bytes]:
    """Few records: the twins take their time for each."""
    rng = random.Random(1)
    batches = [random_batch(rng, rng.choice((0, 10**12)), Codec.NONE) for _ in range(200)]
    return [
        bytes([n % 5]) + b[:8] + b[FRAME_SIZE:MAGIC_AT] + b[ATTRIBUTES_AT:]
        for n, b in enumerate(batches)
        if len(b) < 700
    ]


def wrapper_seeds() -> list[bytes]:
    rng = random.Random(2)
    seeds = []
    for n in range(120):
        magic, base = n % 2, rng.choice((0, 1, 10**6))
        entries = b"".join(
            entry(i if magic else base + i, magic, rng.choice((None, b"", b"key")), rng.choice((None, b"v" * n)))
            for i in range(rng.randrange(1, 4))
        )
        offset = struct.pack(">q", rng.choice((base + 3, base + 3, 0)))
        seeds.append(bytes([magic << 7 | n % 3 | (n % 5 == 0) << 5]) + offset + b"\x80" + entries)
    return seeds


TARGETS = {
    "log": Target(check=check_log, seeds=log_seeds),
    "walk": Target(check=check_walk, seeds=walk_seeds),
    "records": Target(check=check_records, seeds=records_seeds),
    "wrapper": Target(check=check_wrapper, seeds=wrapper_seeds),
    "decode-batch": Target(check=check_decode, seeds=log_seeds),
}
