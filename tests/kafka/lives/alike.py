"""Compare a partition cleaned by Winnow with one cleaned by Kafka, and list allowed differences.

Every function raises AssertionError with the first difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compare import assert_same_bytes, assert_same_dump
from tests.kafka.judge.judge import Kafka
from winnow.errors import CorruptLogError
from winnow.logdir.lookup import Segments
from winnow.logdir.names import INDEX, LEADER_EPOCHS, LOG, SNAPSHOT, TIMEINDEX
from winnow.storage.local import LocalStorage

Found = list[list[int] | None]
INDEXES = (INDEX, TIMEINDEX)
_TIMES = ("wall_s", "dir")
_IN_INDEXES = ("index", "timeindex")


def assert_same_answer(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Kafka reports the same about both, before and after an append."""
    mine, judged = (
        {k: v for k, v in answer.items() if k not in _TIMES} for answer in (ours, theirs)
    )
    differing = {
        k: (mine.get(k), judged.get(k))
        for k in sorted({*mine, *judged})
        if mine.get(k) != judged.get(k)
    }
    assert not differing, f"Kafka opened both and says (of ours, of its own): {differing}"


@dataclass(frozen=True, slots=True)
class Log:
    """Start, end and high watermark of a log."""

    start: int
    end: int
    high_watermark: int


def differing(ours: Path, theirs: Path, log: Log) -> list[str]:
    """Names of files whose bytes differ. Names and times of logs must be equal.

    Changes that a loader makes anyway do not count (S6.3, S8.4). It removes snapshots at or below
    the log start offset and all between segments but the last, folds leader epochs, removes that
    of a leader that wrote nothing, and does without indexes of an empty segment. Snapshots above
    the high watermark do not count either; `machine` removes them.
    """
    found, expected = _names(ours, log), _names(theirs, log)
    assert found == expected, (
        f"only here {sorted(found - expected)}, only Kafka has {sorted(expected - found)}"
    )
    for name in sorted(found):
        if name.endswith(LOG) and (ours / name).stat().st_size:
            mine, judged = ((d / name).stat().st_mtime_ns // 10**6 for d in (ours, theirs))
            assert mine == judged, (
                f"{name}: modified at {mine} ms, Kafka says {judged} ms ({mine - judged:+} ms)"
            )
    different = [
        name for name in sorted(found) if (ours / name).read_bytes() != (theirs / name).read_bytes()
    ]
    if LEADER_EPOCHS in different and _epochs(ours, log) == _epochs(theirs, log):
        different.remove(LEADER_EPOCHS)
    return different


def _names(directory: Path, log: Log) -> set[str]:
    names = {entry.name for entry in directory.iterdir()}
    bases = {int(name[:20]) for name in names if name.endswith(LOG)}
    snapshots = {int(name[:20]) for name in names if name.endswith(SNAPSHOT)}
    last = max(snapshots, default=0)
    kept = {o for o in snapshots if o in bases or o == last > max(bases)}
    return {
        name
        for name in names
        if not (
            name.endswith(SNAPSHOT)
            and not (int(name[:20]) in kept and log.start < int(name[:20]) <= log.high_watermark)
        )
        and not (name.endswith(INDEXES) and _is_empty(directory, name))
    }


def _is_empty(directory: Path, index: str) -> bool:
    log = directory / f"{index[:20]}{LOG}"
    return log.exists() and not log.stat().st_size and not (directory / index).stat().st_size


def _epochs(directory: Path, log: Log) -> list[tuple[int, int]]:
    lines = (directory / LEADER_EPOCHS).read_text().splitlines()[2:]
    epochs = [(int(epoch), int(offset)) for epoch, offset in map(str.split, lines)]
    written = [(epoch, offset) for epoch, offset in epochs if offset < log.end]
    begun = [(epoch, log.start) for epoch, offset in written if offset <= log.start]
    return [
        (epoch, offset)
        for epoch, offset in begun[-1:] + [e for e in written if e[1] > log.start]
        if offset < log.end
    ]


def assert_same_but_compressed(
    kafka: Kafka, ours: Path, theirs: Path, names: Iterable[str], *, rebuilt: Iterable[str] = ()
) -> None:
    """These files differ only in the compressed size of records.

    The indexes of such a log depend on it, and those of the logs `rebuilt` on something else: see
    `assert_indexes_as_rebuilt`. A loader does without those of an empty one.
    """
    dumps = [
        [l for l in kafka.dump(d) if l["t"] not in {"epochs", "snapshot"}] for d in (ours, theirs)
    ]
    recompressed = {
        line["base"]
        for line in _in_segments(dumps[1])
        if line["t"] == "batch" and line["codec"] != "none"
    }
    for name in names:
        if not name.endswith((LOG, *INDEXES)) or int(name[:20]) not in recompressed:
            assert_same_bytes(ours / name, theirs / name)
    empty = {line["base"] for line in dumps[1] if line["t"] == "segment" and not line["bytes"]}
    unindexed = recompressed | empty | {int(name[:20]) for name in rebuilt}
    lines = (
        [_plain(l) for l in dump if l["t"] not in _IN_INDEXES or l["base"] not in unindexed]
        for dump in dumps
    )
    assert_same_dump(*lines, logical=True, name=ours.name)


def _in_segments(dump: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Lines with the base offset of their segment as `base`."""
    segment = 0
    for line in dump:
        if line["t"] == "segment":
            segment = line["base"]
        yield line | {"base": segment}


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    """Uncompressed batches are compared by length and CRC."""
    return (
        line | {"sum": line["crc"], "length": line["size"]} if line.get("codec") == "none" else line
    )


def assert_indexes_as_rebuilt(rebuilt: Path, ours: Path, names: Iterable[str]) -> None:
    """The indexes of these logs equal those that Kafka rebuilt in a copy."""
    for name in names:
        for suffix in INDEXES if name.endswith(LOG) else ():
            assert_same_bytes(ours / (name[:20] + suffix), rebuilt / (name[:20] + suffix))


def times_found(
    directory: Path, timestamps: Iterable[int], *, log_start_offset: int
) -> Found | str:
    """Offset and timestamp of the first record at or after each time, by our lookup; a text if it
    can't be read.
    """
    segments = Segments(LocalStorage(), str(directory))
    try:
        found = [segments.find_timestamp(t, log_start_offset=log_start_offset) for t in timestamps]
    except CorruptLogError as error:
        return str(error)
    return [
        None if f is None or f.record is None else [f.record.offset, f.record.timestamp]
        for f in found
    ]


def assert_same_times_found(found: Found | str, kafkas: Found, timestamps: Iterable[int]) -> None:
    assert not isinstance(found, str), f"our lookup of timestamps fails: {found}"
    for timestamp, ours, theirs in zip(timestamps, found, kafkas, strict=True):
        assert ours == theirs, (
            f"first at or after {timestamp}: found (offset, timestamp) {ours}, Kafka {theirs}"
        )
