"""What happens to files of a log directory: each change is a few words, so that a state can be
written down and made again, to the bit.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote_to_bytes

from tests.fixtures.data import unpacked
from tests.twins.encoding import encode_batch
from tests.unit.wire.metadata_values import config, feature, framed
from winnow.wire.plain import Record

_THEN_MS = 1_750_000_000_000
Change = tuple[str, ...]
"""A name of CHANGES and its arguments. Paths are relative to the directory of the base."""


def apply(root: Path, change: Change) -> None:
    name, path, *arguments = change
    CHANGES[name](root / path, root, *arguments)


def _remove(path: Path, _: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _empty(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def _zero(path: Path, _: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _zero_end(path: Path, _: Path, length: str) -> None:
    data = path.read_bytes()
    keep = max(0, len(data) - int(length))
    path.write_bytes(data[:keep] + bytes(len(data) - keep))


def _cut(path: Path, _: Path, share: str) -> None:
    """Keep so many percent of its bytes."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * int(share) // 100])


def _cut_bytes(path: Path, _: Path, length: str) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - int(length))])


def _grow(path: Path, _: Path, length: str) -> None:
    path.write_bytes(path.read_bytes() + bytes(int(length)))


def _garbage(path: Path, _: Path) -> None:
    path.write_bytes(_noise(path, max(64, path.stat().st_size)))


def _append(path: Path, _: Path, length: str) -> None:
    path.write_bytes(path.read_bytes() + _noise(path, int(length)))


def _flip(path: Path, _: Path, share: str) -> None:
    data = bytearray(path.read_bytes())
    data[min(len(data) - 1, len(data) * int(share) // 100)] ^= 0x40
    path.write_bytes(data)


def _copy(path: Path, root: Path, source: str) -> None:
    """`path` becomes what lies at `source`, a file or a directory."""
    _put(root / source, path)


def _join(path: Path, root: Path, *sources: str) -> None:
    path.write_bytes(b"".join((root / source).read_bytes() for source in sources))


def _batches(path: Path, _: Path, count: str) -> None:
    """Keep so many of its batches."""
    data, end = path.read_bytes(), 0
    for _number in range(int(count)):
        end += 12 + int.from_bytes(data[end + 8 : end + 12])
    path.write_bytes(data[:end])


def _take(path: Path, _: Path, version: str, kind: str, source: str) -> None:
    """`path` becomes what lies in another base at `source`."""
    _put(unpacked(f"starts-{version}") / kind / source, path)


def _put(source: Path, path: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, path)
    else:
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, path)


def _move(path: Path, root: Path, target: str) -> None:
    path.rename(root / target)


def _write(path: Path, _: Path, text: str) -> None:
    path.write_text(text)


def _replace(path: Path, _: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, (path, old, text)
    path.write_text(text.replace(old, new))


def _line(path: Path, _: Path, key: str, value: str) -> None:
    """A property has another value; without a value it goes."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key}=")]
    path.write_text("".join(f"{one}\n" for one in [*lines, *([f"{key}={value}"] if value else [])]))


def _entry(path: Path, _: Path, partition: str, offset: str) -> None:
    """A checkpoint has another offset for a partition; without an offset it has none."""
    version, _count, *entries = path.read_text().splitlines() or ["0", "0"]
    topic, number = partition.rsplit("-", 1)
    kept = [line for line in entries if not line.startswith(f"{topic} {number} ")]
    kept += [f"{topic} {number} {offset}"] if offset else []
    path.write_text("".join(f"{line}\n" for line in [version, str(len(kept)), *kept]))


def _last_batch(path: Path, _: Path, last: str) -> None:
    """A new segment has the first batch of the partition, which now ends at this offset. No CRC
    covers offsets.
    """
    data = min(path.parent.glob("*.log")).read_bytes()
    size = 12 + int.from_bytes(data[8:12])
    base = int(last) - int.from_bytes(data[23:27])
    path.write_bytes(base.to_bytes(8) + data[8:size])


def _gap(path: Path, _: Path, first: str, after: str) -> None:
    """The batches from offset `first` to `after` are gone, and a new segment begins behind them."""
    data, kept, rest, base = path.read_bytes(), b"", b"", None
    while data:
        offset, size = int.from_bytes(data[:8]), 12 + int.from_bytes(data[8:12])
        if offset < int(first):
            kept += data[:size]
        elif offset >= int(after):
            base = offset if base is None else base
            rest += data[:size]
        data = data[size:]
    path.write_bytes(kept)
    path.with_name(f"{base:020d}.log").write_bytes(rest)


def _record(path: Path, _: Path, kind: str, *words: str) -> None:
    """The metadata log has one more record at its end."""
    data = path.read_bytes()
    at, end, epoch = _end_of_log(data)
    value = RECORDS[kind](*words)
    batch = bytearray(encode_batch([Record(end, _THEN_MS, None, value)]))
    batch[12:16] = epoch
    path.write_bytes(data[:at] + batch)


def _control_record(path: Path, _: Path, key: str, value: str) -> None:
    """The metadata log has one more control record at its end. `key`, `value`: in hex."""
    data = path.read_bytes()
    at, end, epoch = _end_of_log(data)
    record = Record(end, _THEN_MS, bytes.fromhex(key), bytes.fromhex(value))
    batch = bytearray(encode_batch([record], control=True))
    batch[12:16] = epoch
    path.write_bytes(data[:at] + batch)


def _end_of_log(data: bytes) -> tuple[int, int, bytes]:
    """Where its batches end, the next offset, and the last leader epoch, which no CRC covers."""
    at, last = 0, 0
    while int.from_bytes(data[at + 8 : at + 12]):
        last, at = at, at + 12 + int.from_bytes(data[at + 8 : at + 12])
    end = int.from_bytes(data[last : last + 8]) + int.from_bytes(data[last + 23 : last + 27]) + 1
    return at, end, data[last + 12 : last + 16]


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _mkdir(path: Path, _: Path) -> None:
    path.mkdir()


def _named(path: Path, _: Path, name: str) -> None:
    """A new file in a directory, or a new directory with a slash at the end. `name`: the bytes of
    its name, percent-encoded.
    """
    target = Path(os.fsdecode(unquote_to_bytes(f"{path}/{name}")))
    if name.endswith("/"):
        target.mkdir()
    else:
        target.write_bytes(b"x")


def _link(path: Path, root: Path, target: str) -> None:
    path.symlink_to(root / target)


def _mode(path: Path, _: Path, mode: str) -> None:
    path.chmod(int(mode, 8))


def _own(path: Path, _: Path, user: str) -> None:
    os.chown(path, int(user), -1)


def _noise(path: Path, length: int) -> bytes:
    return random.Random(path.name).randbytes(length)


RECORDS: dict[str, Callable[..., bytes]] = {
    "feature": lambda name, level: feature(name, int(level)),
    "topic-config": config,
    "unknown": lambda kind: framed(int(kind), b"\x00"),
}

CHANGES: dict[str, Callable[..., None]] = {
    "remove": _remove,
    "empty": _empty,
    "zero": _zero,
    "zero-end": _zero_end,
    "cut": _cut,
    "cut-bytes": _cut_bytes,
    "grow": _grow,
    "garbage": _garbage,
    "append": _append,
    "flip": _flip,
    "batches": _batches,
    "copy": _copy,
    "join": _join,
    "take": _take,
    "move": _move,
    "write": _write,
    "replace": _replace,
    "line": _line,
    "entry": _entry,
    "last-batch": _last_batch,
    "gap": _gap,
    "record": _record,
    "control-record": _control_record,
    "fifo": _fifo,
    "mkdir": _mkdir,
    "named": _named,
    "link": _link,
    "mode": _mode,
    "own": _own,
}
