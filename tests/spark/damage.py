"""Kinds of damage to a sound partition directory.

Each function takes the directory, damages it, and returns a pattern that the error must match: the
file, and the byte where there is one.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zstandard

from tests.twins.crc import crc32c_plain
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    CRC_AT,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    MAGIC_AT,
    RECORD_COUNT_AT,
    Codec,
)
from winnow.wire.codecs import compress
from winnow.wire.walk import walk_batches

Damage = Callable[[Path], str]
LENGTH_AT = 8


class Log:
    """A `.log` file to be changed batch by batch."""

    def __init__(self, directory: Path, segment: int) -> None:
        self.path = sorted(directory.glob("*.log"))[segment]
        self.base = int(self.path.stem)
        self.data = bytearray(self.path.read_bytes())
        rows = np.zeros(len(self.data) // HEADER_V2_SIZE + 1, BATCH)
        count, _, _ = walk_batches(bytes(self.data), 0, self.base, rows)
        self.rows = rows[:count]

    def position(self, batch: int) -> int:
        return int(self.rows["position"][batch])

    def payload(self, batch: int) -> bytes:
        start = self.position(batch)
        return bytes(self.data[start + HEADER_V2_SIZE : start + int(self.rows["size"][batch])])

    def put(self, batch: int, at: int, kind: str, value: int, *, sealed: bool = False) -> None:
        """Another value in a field of a header; `sealed`: with the right CRC for it."""
        struct.pack_into(kind, self.data, self.position(batch) + at, value)
        if sealed:
            self._seal(self.position(batch), int(self.rows["size"][batch]))

    def replace_payload(self, batch: int, payload: bytes) -> None:
        """Other records, with the right length, CRC and, for the whole segment, index files."""
        start, size = self.position(batch), int(self.rows["size"][batch])
        self.data[start + HEADER_V2_SIZE : start + size] = payload
        struct.pack_into(">i", self.data, start + LENGTH_AT, HEADER_V2_SIZE - 12 + len(payload))
        self._seal(start, HEADER_V2_SIZE + len(payload))
        self.write()
        again = Log(self.path.parent, sorted(self.path.parent.glob("*.log")).index(self.path))
        builder = IndexBuilder(base_offset=self.base, index_interval_bytes=4096)
        builder.append(again.rows)
        for suffix, content in zip((".index", ".timeindex"), builder.finish(), strict=True):
            self.path.with_suffix(suffix).write_bytes(content)

    def write(self) -> None:
        """Keeps the time of the file, as a failing disk would."""
        times = self.path.stat()
        self.path.write_bytes(bytes(self.data))
        os.utime(self.path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def at(self, batch: int) -> str:
        return rf"{re.escape(str(self.path))}.*at byte {self.position(batch)}\b"

    def _seal(self, start: int, size: int) -> None:
        crc = crc32c_plain(bytes(self.data[start + ATTRIBUTES_AT : start + size]))
        struct.pack_into(">I", self.data, start + CRC_AT, crc)


def field(
    batch: int, at: int, kind: str, value: int, *, segment: int = 1, sealed: bool = False
) -> Damage:
    def damage(directory: Path) -> str:
        log = Log(directory, segment)
        log.put(batch, at, kind, value, sealed=sealed)
        log.write()
        return log.at(batch)

    return damage


def offset_back(directory: Path) -> str:
    """No CRC covers the base offset."""
    log = Log(directory, 1)
    log.put(3, 0, ">q", int(log.rows["base_offset"][2]))
    log.write()
    return log.at(3)


def huge_delta(directory: Path) -> str:
    """The batch is valid, but the next one begins below its last offset."""
    log = Log(directory, 1)
    log.put(2, LAST_OFFSET_DELTA_AT, ">i", 2**31 - 1, sealed=True)
    log.write()
    return log.at(3)


def next_segments_offsets(directory: Path) -> str:
    log = Log(directory, 1)
    log.put(-1, LAST_OFFSET_DELTA_AT, ">i", 2**31 - 1, sealed=True)
    log.write()
    return rf"overlap.*{re.escape(str(log.path))}|{log.at(-1)}|\.index at byte"


def torn(segment: int) -> Damage:
    def damage(directory: Path) -> str:
        log = Log(directory, segment)
        del log.data[-7:]
        log.write()
        return log.at(-1)

    return damage


def zeros_at_the_end(directory: Path) -> str:
    log = Log(directory, -1)
    end = len(log.data)
    log.data += bytes(4096)
    log.write()
    return rf"{re.escape(str(log.path))} at byte {end}\b"


def flipped_bit(directory: Path) -> str:
    log = Log(directory, 1)
    log.data[log.position(2) + HEADER_V2_SIZE + 9] ^= 4
    log.write()
    return log.at(2)


def wild_record_length(directory: Path) -> str:
    log = Log(directory, 1)
    payload = b"\xfe\xff\xff\xff\x0f" + log.payload(2)[5:]
    log.replace_payload(2, payload)
    return log.at(2)


def wild_key_length(directory: Path) -> str:
    """Length (two bytes), attributes, timestamp delta, offset delta, key length."""
    log = Log(directory, 1)
    payload = bytearray(log.payload(2))
    at = 1 + next(i for i, byte in enumerate(payload) if byte < 0x80) + 1
    for _ in range(2):
        at += 1 + next(i for i, byte in enumerate(payload[at:]) if byte < 0x80)
    payload[at] = 0x7E
    log.replace_payload(2, bytes(payload))
    return log.at(2)


def garbage(suffix: str, size: int) -> Damage:
    def damage(directory: Path) -> str:
        path = sorted(directory.glob(f"*{suffix}"))[1]
        path.write_bytes(random.Random(5).randbytes(size))
        return re.escape(str(path)) + (r" at byte \d+" if size % 24 == 0 else "")

    return damage


def directory_in_place_of_log(directory: Path) -> str:
    path = sorted(directory.glob("*.log"))[1]
    path.unlink()
    path.mkdir()
    return re.escape(path.name)


def unreadable_log(directory: Path) -> str:
    """A link to itself: not even the superuser can read it."""
    path = sorted(directory.glob("*.log"))[1]
    path.unlink()
    path.symlink_to(path.name)
    return re.escape(str(path))


def missing(suffix: str) -> Damage:
    def damage(directory: Path) -> str:
        path = sorted(directory.glob(f"*{suffix}"))[1]
        path.unlink()
        return re.escape(str(path))

    return damage


def no_segment(directory: Path) -> str:
    for path in directory.glob("0*"):
        path.unlink()
    return re.escape(str(directory))


def foreign_log(directory: Path) -> str:
    (directory / "part-0.log").write_bytes(b"x")
    return r"part-0\.log"


def torn_swap(directory: Path) -> str:
    log = sorted(directory.glob("*.log"))[1]
    swap = log.with_name(log.name + ".swap")
    swap.write_bytes(log.read_bytes()[:-5])
    return rf"{re.escape(str(swap))} at byte \d+|{re.escape(swap.name)} replaces "


def bad_leader_epochs(directory: Path) -> str:
    path = directory / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n")
    return re.escape(str(path))


def half_a_payload(directory: Path) -> str:
    log = Log(directory, 1)
    payload = log.payload(2)
    log.replace_payload(2, payload[: len(payload) // 2])
    return log.at(2)


def garbage_payload(directory: Path) -> str:
    log = Log(directory, 1)
    log.replace_payload(2, random.Random(7).randbytes(len(log.payload(2))))
    return log.at(2)


def bomb(codec: Codec, megabytes: int) -> Damage:
    """A small batch that becomes a large one."""

    def damage(directory: Path) -> str:
        log = Log(directory, 1)
        zeros = bytes(megabytes << 20)
        payload = {
            Codec.GZIP: lambda: gzip.compress(zeros),
            Codec.LZ4: lambda: compress(Codec.LZ4, zeros),
            Codec.ZSTD: lambda: zstandard.ZstdCompressor(write_content_size=False).compress(zeros),
        }[codec]()
        log.replace_payload(2, payload)
        return log.at(2)

    return damage


def count(value: int, *, sealed: bool) -> Damage:
    return field(2, RECORD_COUNT_AT, ">i", value, sealed=sealed)


PLAIN: dict[str, Damage] = {
    "torn-active": torn(-1),
    "torn-closed": torn(1),
    "torn-first": torn(0),
    "zeros-active": zeros_at_the_end,
    "flipped-bit": flipped_bit,
    "index-garbage": garbage(".index", 120),
    "index-torn": garbage(".index", 77),
    "timeindex-garbage": garbage(".timeindex", 120),
    "timeindex-torn": garbage(".timeindex", 77),
    "log-directory": directory_in_place_of_log,
    "log-unreadable": unreadable_log,
    "index-missing": missing(".index"),
    "timeindex-missing": missing(".timeindex"),
    "no-segment": no_segment,
    "foreign-log": foreign_log,
    "torn-swap": torn_swap,
    "leader-epochs": bad_leader_epochs,
    "length-huge": field(2, LENGTH_AT, ">i", 2**31 - 1),
    "length-negative": field(2, LENGTH_AT, ">i", -5),
    "length-zero": field(2, LENGTH_AT, ">i", 0),
    "length-active": field(0, LENGTH_AT, ">i", -(2**31), segment=-1),
    "count-huge": count(2**31 - 1, sealed=False),
    "count-huge-sealed": count(2**31 - 1, sealed=True),
    "count-negative": count(-1, sealed=True),
    "count-zero-sealed": count(0, sealed=True),
    "count-few-sealed": count(1, sealed=True),
    "delta-huge": huge_delta,
    "delta-negative": field(2, LAST_OFFSET_DELTA_AT, ">i", -1, sealed=True),
    "next-segment": next_segments_offsets,
    "offset-back": offset_back,
    "offset-negative": field(2, 0, ">q", -1),
    "offset-largest": field(2, 0, ">q", 2**63 - 1),
    "magic-9": field(2, MAGIC_AT, ">b", 9),
    "magic-negative": field(2, MAGIC_AT, ">b", -1),
    "codec-7": field(2, ATTRIBUTES_AT, ">h", 7, sealed=True),
    "codec-wrong": field(2, ATTRIBUTES_AT, ">h", 4, sealed=True),
    "record-length": wild_record_length,
    "key-length": wild_key_length,
}
"""For partitions whose batches are not compressed, with three batches or more in each segment."""

COMPRESSED: dict[str, tuple[str, Damage]] = {
    **{
        f"half-{codec}": (f"c-{codec}-0", half_a_payload)
        for codec in ("gzip", "snappy", "lz4", "zstd")
    },
    **{
        f"garbage-{codec}": (f"c-{codec}-0", garbage_payload)
        for codec in ("gzip", "snappy", "lz4", "zstd")
    },
    **{
        f"bomb-{codec.name.lower()}": (f"c-{codec.name.lower()}-0", bomb(codec, 64))
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD)
    },
    "large-zstd": ("c-zstd-0", bomb(Codec.ZSTD, 128)),
}
"""Name -> recorded partition, damage. `bomb-*` are for a small `max.decompressed.message.bytes`."""
