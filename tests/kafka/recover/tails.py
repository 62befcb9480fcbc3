"""Damage the ends of logs at random, as crashes and failing disks do.

Each damaged log is a partition directory made from one of the fixtures: its last segments, and one
to three changes. The same seed gives the same log.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from winnow.logdir.names import INDEX, LOG, SEGMENT_SUFFIXES, SNAPSHOT, TIMEINDEX, TXNINDEX

_FRAME = struct.Struct(">qi")
_MOST_BYTES = 200_000


@dataclass
class Tail:
    """A damaged partition, and what the checkpoints say of it."""

    directory: Path
    source: str
    recovery_point: int | None = 0
    log_start: int | None = None
    done: list[str] = field(default_factory=list)

    def logs(self) -> list[Path]:
        return sorted(self.directory.glob(f"*{LOG}"))

    def any_file(self, rng: random.Random, suffix: str) -> Path | None:
        found = sorted(self.directory.glob(f"*{suffix}"))
        return rng.choice(found) if found else None

    @property
    def end(self) -> int:
        """About where the log ends."""
        snapshots = sorted(self.directory.glob(f"*{SNAPSHOT}"))
        bases = [int(path.name[:20]) for path in (*self.logs()[-1:], *snapshots[-1:])]
        return max(bases, default=0)


def make_tail(source: Path, directory: Path, seed: int) -> Tail:
    """Copy some segments of a partition and damage them."""
    rng = random.Random(seed)
    logs = sorted(source.glob(f"*{LOG}"))
    last = rng.randint(1, len(logs))
    first = max(0, last - rng.randint(1, 5))
    chosen = logs[first:last]
    while len(chosen) > 1 and sum(log.stat().st_size for log in chosen) > _MOST_BYTES:
        chosen = chosen[1:]
    directory.mkdir()
    low = int(chosen[0].name[:20])
    high = int(logs[last].name[:20]) if last < len(logs) else 2**63 - 1
    for path in sorted(source.iterdir()):
        digits = path.name[:20]
        if not path.is_file():
            continue
        if digits.isdigit():
            offset = int(digits)
            if low <= offset < high or (path.suffix == SNAPSHOT and offset == high):
                shutil.copyfile(path, directory / path.name)
        else:
            shutil.copyfile(path, directory / path.name)
    tail = Tail(directory, source.name)
    tail.recovery_point = rng.choice([None, 0, low, _between(rng, low, tail.end), tail.end])
    if rng.random() < 0.15:
        tail.log_start = rng.choice([low, _between(rng, low, tail.end), tail.end + 10])
    for _ in range(rng.choice([1, 1, 2, 3])):
        change = rng.choice(_CHANGES)
        change(tail, rng)
        tail.done.append(change.__name__.strip("_"))
    return tail


def _between(rng: random.Random, low: int, high: int) -> int:
    return rng.randint(low, max(low, high))


def _log(tail: Tail, rng: random.Random) -> Path | None:
    """The last log, mostly."""
    logs = tail.logs()
    if not logs:
        return None
    return logs[-1] if rng.random() < 0.7 else rng.choice(logs)


def _positions(data: bytes) -> list[tuple[int, int]]:
    """(start, end) of each batch, as far as sizes lead."""
    found, at = [], 0
    while at + 17 < len(data):
        _, size = _FRAME.unpack_from(data, at)
        if size < 14 or at + 12 + size > len(data):
            break
        found.append((at, at + 12 + size))
        at += 12 + size
    return found


def _cut_log(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        data = path.read_bytes()
        path.write_bytes(data[: rng.randint(0, len(data))])


def _cut_near_a_batch(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        data = path.read_bytes()
        ends = [end for _, end in _positions(data)] or [0]
        path.write_bytes(data[: max(0, rng.choice(ends) + rng.randint(-20, 20))])


def _append_zeros(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        path.write_bytes(path.read_bytes() + bytes(rng.choice([1, 12, 17, 18, 61, 4096, 50_000])))


def _zero_the_end(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        data = path.read_bytes()
        at = rng.randint(0, len(data))
        path.write_bytes(data[:at] + bytes(len(data) - at))


def _zero_a_page(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        data = bytearray(path.read_bytes())
        at = rng.randint(0, len(data)) // 4096 * 4096
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
        path.write_bytes(data)


def _flip_bits(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice([1, 1, 3])):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


def _flip_a_header(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        data = bytearray(path.read_bytes())
        batches = _positions(data)
        if batches:
            start = rng.choice(batches)[0]
            data[start + rng.randrange(4, 61) if start + 61 < len(data) else start] ^= (
                1 << rng.randrange(8)
            )
        path.write_bytes(data)


def _append_garbage(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        path.write_bytes(path.read_bytes() + rng.randbytes(rng.randint(1, 300)))


def _repeat_a_batch(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        data = path.read_bytes()
        batches = _positions(data)
        if batches:
            start, end = rng.choice(batches)
            at = rng.choice([batches[-1][1], end])
            path.write_bytes(data[:at] + data[start:end] + data[at:])


def _another_epoch(tail: Tail, rng: random.Random) -> None:
    """The leader epoch is not covered by the CRC."""
    if path := _log(tail, rng):
        data = bytearray(path.read_bytes())
        for start, _ in _positions(data)[-rng.randint(1, 4) :]:
            if data[start + 16] == 2:
                struct.pack_into(">i", data, start + 12, rng.choice([-1, 0, 1, 7, 8]))
        path.write_bytes(data)


def _tear_an_index(tail: Tail, rng: random.Random) -> None:
    if path := tail.any_file(rng, rng.choice([INDEX, TIMEINDEX])):
        data = path.read_bytes()
        path.write_bytes(data[: rng.randint(0, len(data))])


def _preallocate_indexes(tail: Tail, rng: random.Random) -> None:
    if path := _log(tail, rng):
        for suffix in (INDEX, TIMEINDEX):
            index = path.with_suffix(suffix)
            data = index.read_bytes() if index.exists() else b""
            index.write_bytes(data + bytes(rng.choice([24, 240, 24_000])))


def _lose_an_index(tail: Tail, rng: random.Random) -> None:
    if path := tail.any_file(rng, rng.choice([INDEX, INDEX, TIMEINDEX, TXNINDEX])):
        path.unlink()


def _damage_a_transaction_index(tail: Tail, rng: random.Random) -> None:
    if path := tail.any_file(rng, TXNINDEX):
        data = bytearray(path.read_bytes())
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.choice([len(data), rng.randint(0, len(data))])])


def _empty_transaction_indexes(tail: Tail, rng: random.Random) -> None:
    """Lost or empty, of all segments."""
    for path in sorted(tail.directory.glob(f"*{TXNINDEX}")):
        if rng.random() < 0.5:
            path.unlink()
        else:
            path.write_bytes(b"")


def _break_what_is_opened(tail: Tail, rng: random.Random) -> None:
    """A broker recovers such a segment when it opens it: without an offset index, or with an entry
    of its transaction index below it. And its log is damaged.
    """
    logs = tail.logs()
    if not logs:
        return
    log = rng.choice(logs)
    transactions = log.with_suffix(TXNINDEX)
    if transactions.exists() and transactions.stat().st_size and rng.random() < 0.7:
        data = bytearray(transactions.read_bytes())
        struct.pack_into(">q", data, 18, max(0, int(log.name[:20]) - 1))
        transactions.write_bytes(data)
    else:
        log.with_suffix(INDEX).unlink(missing_ok=True)
    if rng.random() < 0.7:
        data = bytearray(log.read_bytes())
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        log.write_bytes(data)


def _lose_snapshots(tail: Tail, rng: random.Random) -> None:
    for path in sorted(tail.directory.glob(f"*{SNAPSHOT}")):
        if rng.random() < 0.6:
            path.unlink()


def _damage_a_snapshot(tail: Tail, rng: random.Random) -> None:
    if path := tail.any_file(rng, SNAPSHOT):
        data = bytearray(path.read_bytes())
        if data and rng.random() < 0.5:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.choice([0, len(data), rng.randint(0, len(data))])])


def _add_a_stray_snapshot(tail: Tail, rng: random.Random) -> None:
    if path := tail.any_file(rng, SNAPSHOT):
        offset = _between(rng, 0, tail.end + 5)
        shutil.copyfile(path, tail.directory / f"{offset:020d}{SNAPSHOT}")


def _lose_a_segment(tail: Tail, rng: random.Random) -> None:
    logs = tail.logs()
    if logs:
        log = rng.choice(logs)
        for suffix in rng.choice([SEGMENT_SUFFIXES, (LOG,)]):
            log.with_suffix(suffix).unlink(missing_ok=True)


def _change_epochs(tail: Tail, rng: random.Random) -> None:
    path = tail.directory / "leader-epoch-checkpoint"
    if rng.random() < 0.4:
        path.unlink(missing_ok=True)
    else:
        starts = sorted(rng.sample(range(tail.end + 20), min(tail.end + 20, rng.randint(0, 3))))
        lines = [f"{2 * number} {start}\n" for number, start in enumerate(starts)]
        path.write_text(f"0\n{len(lines)}\n{''.join(lines)}")


def _leave_a_deletion(tail: Tail, rng: random.Random) -> None:
    logs = tail.logs()
    if len(logs) > 1:
        log = rng.choice(logs)
        for suffix in SEGMENT_SUFFIXES[: rng.randint(1, 4)]:
            file = log.with_suffix(suffix)
            if file.exists():
                file.rename(f"{file}.deleted")


_CHANGES: Sequence[Callable[[Tail, random.Random], None]] = (
    _cut_log,
    _cut_log,
    _cut_near_a_batch,
    _cut_near_a_batch,
    _append_zeros,
    _zero_the_end,
    _zero_a_page,
    _flip_bits,
    _flip_a_header,
    _append_garbage,
    _repeat_a_batch,
    _another_epoch,
    _tear_an_index,
    _preallocate_indexes,
    _lose_an_index,
    _damage_a_transaction_index,
    _empty_transaction_indexes,
    _break_what_is_opened,
    _lose_snapshots,
    _damage_a_snapshot,
    _add_a_stray_snapshot,
    _lose_a_segment,
    _change_epochs,
    _leave_a_deletion,
)
