"""Compare what Winnow left with what Kafka left: directories file by file, dumps line by line.

Every function raises AssertionError that shows the first difference in Kafka's terms.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

SUFFIXES = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
)
LAYOUT = frozenset({"pos", "size", "crc", "bytes", "entries"})
"""What may differ in a dump where a codec was applied again: its output is as good as Kafka's, not
always as long.
"""

BATCH_HEADER = struct.Struct(">qi i b I h i q q q h i i".replace(" ", ""))
BATCH_FIELDS = (
    *(
        "base offset",
        "batch length",
        "partition leader epoch",
        "magic",
        "CRC",
        "attributes",
        "last offset delta",
    ),
    *(
        "base timestamp",
        "max timestamp",
        "producer id",
        "producer epoch",
        "base sequence",
        "record count",
    ),
)
SIZE_PREFIX = 12


def assert_same_partition(found: Path, kafkas: Path, *, but: Collection[str] = ()) -> None:
    """Same file names, same bytes, same modification times (ms) of `.log` files that have records.

    `but` names suffixes (of `SUFFIXES`) whose bytes may differ; the files must be there all the
    same. What does not belong in a partition directory, such as `.deleted` files or
    sub-directories, is a difference.
    """
    names, kafkas_names = _names(found), _names(kafkas)
    if names != kafkas_names:
        ours, theirs = sorted(names - kafkas_names), sorted(kafkas_names - names)
        raise AssertionError(f"{found.name}: only here {ours}, only Kafka has {theirs}")
    for name in sorted(names):
        if not name.endswith(tuple(but)) or not but:
            assert_same_bytes(found / name, kafkas / name)
        if name.endswith(".log") and (found / name).stat().st_size:
            ours, theirs = (
                directory.joinpath(name).stat().st_mtime_ns // 10**6
                for directory in (found, kafkas)
            )
            if ours != theirs:
                raise AssertionError(
                    f"{found.name}/{name}: modified at {ours} ms, Kafka says {theirs} ms "
                    f"({ours - theirs:+} ms)"
                )


def assert_same_log_dir(found: Path, kafkas: Path, *, but: Collection[str] = ()) -> None:
    """`assert_same_partition` for every partition, all failing ones in one message."""
    directories = {
        entry.name for root in (found, kafkas) for entry in root.iterdir() if entry.is_dir()
    }
    failures = []
    for name in sorted(directories):
        try:
            assert_same_partition(found / name, kafkas / name, but=but)
        except (AssertionError, OSError) as difference:
            failures.append(str(difference))
    if failures:
        raise AssertionError(
            f"{len(failures)} of {len(directories)} partitions differ from Kafka's:\n"
            + "\n".join(failures)
        )


def assert_same_dump(
    found: Iterable[str | Mapping[str, Any]],
    kafkas: Iterable[str | Mapping[str, Any]],
    *,
    logical: bool = False,
    name: str = "",
) -> None:
    """Two dumps (lines of JSON, or parsed) are equal, except the creation times of empty segments.

    `logical`: record for record and batch header for batch header, but not where they lie and how
    long they are: for batches that were compressed again. Of offset and time indexes only whether
    they have entries is then compared.
    """
    ours, theirs = _comparable(found, logical=logical), _comparable(kafkas, logical=logical)
    for number, (mine, judged) in enumerate(zip_longest(ours, theirs), start=1):
        if mine != judged:
            where = (
                f"{name} line {number} of the dump differs from Kafka's "
                f"{_context(ours, number - 1)}"
            )
            message = f"{where}\n{_fields(mine, judged)}"
            raise AssertionError(message.strip())


def _names(directory: Path) -> set[str]:
    return {entry.name + "/" * entry.is_dir() for entry in directory.iterdir()}


def assert_same_bytes(found: Path, kafkas: Path) -> None:
    ours, theirs = found.read_bytes(), kafkas.read_bytes()
    if ours == theirs:
        return
    at = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
        min(len(ours), len(theirs)),
    )
    message = (
        f"{found.parent.name}/{found.name}: {len(ours)} bytes, Kafka has {len(theirs)}; "
        f"first difference at byte {at}"
    )
    raise AssertionError(message + _described(found.suffix, ours, theirs, at))


def _described(suffix: str, ours: bytes, theirs: bytes, at: int) -> str:
    if suffix == ".log":
        position = _batch_start(theirs, at)
        return (
            ", in the batch at "
            f"{position}\n{_fields(_header(ours, position, at), _header(theirs, position, at))}"
        )
    entry = {
        ".index": struct.Struct(">ii"),
        ".timeindex": struct.Struct(">qi"),
        ".txnindex": struct.Struct(">hqqqq"),
    }.get(suffix)
    if entry is None:
        return f"\n  found {ours[at : at + 60]!r}\n  Kafka {theirs[at : at + 60]!r}"
    start = at - at % entry.size
    texts = (
        str(entry.unpack_from(data, start)) if start + entry.size <= len(data) else "its end"
        for data in (ours, theirs)
    )
    return ", in entry {} (relative offsets)\n  found {}\n  Kafka {}".format(
        at // entry.size, *texts
    )


def _batch_start(log: bytes, at: int) -> int:
    """Where the batch begins that holds byte `at`."""
    position = 0
    while position + SIZE_PREFIX <= len(log):
        following = (
            position
            + SIZE_PREFIX
            + max(0, int.from_bytes(log[position + 8 : position + SIZE_PREFIX], "big"))
        )
        if following > at:
            break
        position = following
    return position


def _header(log: bytes, position: int, at: int) -> dict[str, Any] | None:
    if position + BATCH_HEADER.size > len(log):
        return None
    fields: dict[str, Any] = dict(
        zip(BATCH_FIELDS, BATCH_HEADER.unpack_from(log, position), strict=True)
    )
    near = max(position + BATCH_HEADER.size, at - 8)
    return fields | {f"records, from byte {near}": log[near : near + 48].hex()}


def _comparable(lines: Iterable[str | Mapping[str, Any]], *, logical: bool) -> list[dict[str, Any]]:
    parsed = [json.loads(line) if isinstance(line, str) else dict(line) for line in lines]
    empty = {line["base"] for line in parsed if line["t"] == "segment" and not line["bytes"]}
    parsed = [line for line in parsed if not (line["t"] == "mtime" and line["base"] in empty)]
    if not logical:
        return parsed
    return [
        {
            key: bool(value) if key == "entries" and line["t"] != "txnindex" else value
            for key, value in line.items()
            if _kept(key)
        }
        for line in parsed
    ]


def _kept(key: str) -> bool:
    return key not in LAYOUT or key == "entries"


def _context(lines: Sequence[Mapping[str, Any]], index: int) -> str:
    for line in reversed(lines[: index + 1]):
        if line["t"] in {"segment", "batch"}:
            return f"(after {line['t']} {line['base']})"
    return ""


def _fields(mine: Mapping[str, Any] | None, judged: Mapping[str, Any] | None) -> str:
    if mine is None or judged is None:
        return f"  found {_shortened(mine)}\n  Kafka {_shortened(judged)}"
    names = [name for name in {**mine, **judged} if mine.get(name) != judged.get(name)]
    same = {name: value for name, value in judged.items() if name not in names}
    shown = [
        f"  {name}: found {_shortened(mine.get(name))}, Kafka {_shortened(judged.get(name))}"
        for name in names
    ]
    return "\n".join([*shown, f"  alike: {_shortened(same)}"])


def _shortened(value: object) -> str:
    text = str(value)
    return text if len(text) <= 400 else f"{text[:400]}... ({len(text)} characters)"
