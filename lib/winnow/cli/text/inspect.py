"""The text of `inspect`: a line per batch or entry of a file, or a line per file of a directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from winnow.logdir.indexes.txnindex import AbortedTransaction
from winnow.logdir.lookup import IndexEntry
from winnow.state import ProducerEntry
from winnow.verbs.inspect.values import (
    BatchLine,
    CheckpointLine,
    EpochLine,
    FileDescription,
    FileKind,
    FileProblem,
    Line,
    NamesLine,
    Note,
    PositionLine,
    PropertyLine,
    RecordLine,
    TimeLine,
)
from winnow.wire.internal_topics import Fields
from winnow.words import counted, instant, one_line, size

LONGEST_BYTES = 60
"""Most characters of a key or a value. --json has all of it."""
MOST_NAMES = 20


def pieces(
    files: Iterable[FileDescription],
    positions: Sequence[PositionLine],
    problems: Sequence[FileProblem],
    *,
    in_full: bool,
) -> Iterator[str]:
    """Yield each line with its end. `in_full`: one for each item in a file; otherwise one per file.
    `problems`: of all that is read.
    """
    directory = None
    for file in files:
        parent, _, name = file.path.rpartition("/")
        if parent != directory:
            yield f"{parent}\n" if directory is None else f"\n{parent}\n"
            directory = parent
        yield from (f"  {line}\n" for line in (_whole if in_full else _brief)(file, name))
    for position in positions:
        yield from (f"{line}\n" for line in _position(position))
    if problems:
        yield f"\n{counted(len(problems), 'problem')}\n"


def _whole(file: FileDescription, name: str) -> Iterator[str]:
    base = "" if file.base_offset is None else f", base offset {file.base_offset}"
    yield f"{name}: {file.kind}, {size(file.size)}{base}"
    for line in file.lines:
        yield from (f"  {text}" for text in texts(line))


def _brief(file: FileDescription, name: str) -> Iterator[str]:
    remarks: list[Line] = []
    summary = _summary(file, remarks)
    yield f"{name:<32} {size(file.size):>10}  {summary}".rstrip()
    yield from (f"    {text}" for line in remarks for text in texts(line))


def _summary(file: FileDescription, remarks: list[Line]) -> str:
    """Read the lines, and return what they are in short. `remarks` gets what is worth a line."""
    found: Counter[str] = Counter()
    codecs: dict[str, None] = {}
    first = last = largest = -1
    for line in file.lines:
        if isinstance(line, (FileProblem, Note, NamesLine)):
            remarks.append(line)
            continue
        found["entries"] += 1
        if isinstance(line, BatchLine):
            found["records"] += line.count or 0
            found["uncounted"] += line.count is None
            found["control"] += line.control
            codecs[f"v{line.magic} {line.codec}"] = None
            first = line.base_offset if found["entries"] == 1 else first
            last, largest = line.last_offset, max(largest, line.max_timestamp)
        elif isinstance(line, TimeLine):
            largest = max(largest, line.timestamp)
    count = found["entries"]
    if file.kind in (FileKind.LOG, FileKind.METADATA_SNAPSHOT):
        if not count:
            return "no batch"
        parts = [f"offsets {first}-{last}", "1 batch" if count == 1 else f"{count} batches"]
        parts += [] if found["uncounted"] else [f"{found['records']} records"]
        parts += [f"{found['control']} control"] if found["control"] else []
        return ", ".join([*parts, *codecs, f"to {instant(largest)}"])
    if file.kind is FileKind.OTHER:
        return "not read"
    nouns = {FileKind.SNAPSHOT: "producer", FileKind.TXNINDEX: "aborted transaction"}
    if file.kind in nouns:
        return counted(count, nouns[file.kind])
    until = f" to {instant(largest)}" if file.kind is FileKind.TIMEINDEX and count else ""
    return f"{'1 entry' if count == 1 else f'{count} entries'}{until}"


def _position(position: PositionLine) -> Iterator[str]:
    what = instant(position.value) if position.asked == "timestamp" else str(position.value)
    end = "?" if position.log_end_offset is None else position.log_end_offset
    yield (
        f"{position.directory}: {position.asked} {what}, log from {position.log_start_offset} "
        f"to {end}"
    )
    yield from (f"  {text}" for text in _way(position))
    yield from (f"  {text}" for line in position.lines for text in texts(line))


def _way(position: PositionLine) -> Iterator[str]:
    if position.batch is None or position.segment is None:
        yield f"not found: there is no record at or after this {position.asked}"
        return
    begin = "the start of the file"
    if position.index_offset is not None:
        begin = f"index entry {position.index_offset} @{position.index_position}"
    yield f"segment  {position.segment.rpartition('/')[2]}"
    yield (
        f"scan     from {begin}, {position.batches_scanned} "
        f"batch{'es' * (position.batches_scanned != 1)}"
    )
    yield f"batch    {_batch(position.batch)}"
    if position.record is not None:
        yield f"record   {_record(position.record)}"
    if position.next_record is None:
        yield "consumer gets nothing more: no record follows"
    elif position.record is None or position.next_record.offset != position.record.offset:
        yield f"consumer gets offset {position.next_record.offset} first"


def texts(line: Line) -> list[str]:
    """Return the lines of text for one value. A batch with its records has several."""
    return _TEXTS[type(line)](line)


def _batch(b: BatchLine) -> str:
    parts = [f"@{b.position}", f"offsets {b.base_offset}-{b.last_offset}"]
    parts += [] if b.count is None else [counted(b.count, "record")]
    parts += [
        size(b.size),
        f"v{b.magic}",
        b.codec,
        f"{b.timestamp_type} {instant(b.max_timestamp)}",
    ]
    if b.producer_id >= 0:
        sequence = "" if b.base_sequence < 0 else f" sequence {b.base_sequence}-{b.last_sequence}"
        parts.append(f"producer {b.producer_id} epoch {b.producer_epoch}{sequence}")
    parts += ["transactional"] * b.transactional + ["control"] * b.control
    parts += [] if b.delete_horizon is None else [f"delete horizon {instant(b.delete_horizon)}"]
    parts += [] if b.leader_epoch < 0 else [f"leader epoch {b.leader_epoch}"]
    parts.append(f"crc {b.crc:08x} {'ok' if b.crc_valid else 'WRONG'}")
    return "  ".join(parts)


def _record(r: RecordLine) -> str:
    parts = [f"{r.offset}", instant(r.timestamp)]
    if r.control is not None:
        coordinator = (
            "" if r.coordinator_epoch is None else f" coordinator epoch {r.coordinator_epoch}"
        )
        return "  ".join([*parts, f"{r.control}{coordinator}"])
    if r.internal is not None:
        value = (
            "null"
            if r.value is None
            else _bytes(r.value)
            if r.internal.value is None
            else _fields(r.internal.value)
        )
        return "  ".join([*parts, f"{r.internal.type} {_fields(r.internal.key)}", value])
    parts += [f"key {_bytes(r.key)}", f"value {_bytes(r.value)}"]
    parts += [f"header {_bytes(name)}={_bytes(value)}" for name, value in r.headers]
    return "  ".join(parts)


def _fields(fields: Fields) -> str:
    return " ".join(
        f"{name}={_shown(str(value)) if isinstance(value, str) else value}"
        for name, value in fields
    )


def _bytes(data: bytes | None) -> str:
    """Return printable text as it is, anything else in hex. So no terminal obeys it."""
    if data is None:
        return "null"
    try:
        return _shown(data.decode())
    except UnicodeDecodeError:
        return _cut(f"0x{data.hex()}", f"{len(data)} bytes")


def _shown(text: str) -> str:
    return _cut(f'"{one_line(text)}"', f"{len(text)} characters")


def _cut(text: str, whole: str) -> str:
    return text if len(text) <= LONGEST_BYTES else f"{text[:LONGEST_BYTES]}... ({whole})"


def _producer(p: ProducerEntry) -> str:
    parts = [f"producer {p.producer_id} epoch {p.epoch}", f"last {instant(p.timestamp)}"]
    if p.last_offset >= 0:
        parts.append(
            f"offsets {p.last_offset - p.offset_delta}-{p.last_offset} to sequence "
            f"{p.last_sequence}"
        )
    if p.current_txn_first_offset >= 0:
        parts.append(f"open transaction from {p.current_txn_first_offset}")
    return "  ".join([*parts, f"coordinator epoch {p.coordinator_epoch}"])


def _aborted(a: AbortedTransaction) -> str:
    offsets = f"aborted {a.first_offset}-{a.last_offset}"
    return f"producer {a.producer_id}  {offsets}  last stable offset {a.last_stable_offset}"


def _names(n: NamesLine) -> str:
    shown = ", ".join(_shown(name) for name in n.names[:MOST_NAMES])
    more = len(n.names) - MOST_NAMES
    return f"holds the state of {shown}{f' and {more} more' if more > 0 else ''}"


_TEXTS: dict[type, Callable[[Any], list[str]]] = {
    BatchLine: lambda b: [_batch(b), *(f"  {_record(r)}" for r in b.records or ())],
    IndexEntry: lambda e: [f"offset {e.offset} @{e.position}"],
    TimeLine: lambda e: [f"{instant(e.timestamp)} ({e.timestamp})  offset {e.offset}"],
    AbortedTransaction: lambda a: [_aborted(a)],
    ProducerEntry: lambda p: [_producer(p)],
    CheckpointLine: lambda c: [f"{c.topic}-{c.partition} {c.offset}"],
    EpochLine: lambda e: [f"epoch {e.epoch} from offset {e.start_offset}"],
    PropertyLine: lambda p: [f"{p.name}={p.value}"],
    NamesLine: lambda n: [_names(n)],
    FileProblem: lambda p: [f"PROBLEM: {p.message}"],
    Note: lambda n: [f"note: {n.message}"],
}
