"""Fates that real brokers had, a file for each version: a line for each state.

Of a damaged state only that is kept in which its fate differs from that of its base.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.kafka.starts.fate import Fate, Loaded
from tests.kafka.starts.table import State

HERE = Path(__file__).resolve().parent / "recorded"
MOST_LINES, MOST_CHARACTERS = 3, 220
_LOADED = re.compile(r"(-?\d+)\.\.(-?\d+)(?: recovered ([\d,]+))?(?: hw (-?\d+))?( no leader)?$")
_RANDOM = re.compile(
    r"[0-9a-f]{32}|[A-Za-z0-9_-]{22}|\d+ ?ms\b|in \d+|\b0x[0-9a-f]+|\d\d:\d\d:\d\d[.\d]*|\d{13}"
)
Recorded = dict[State, Fate]


@dataclass(frozen=True, slots=True)
class Record:
    """`made`: the date, the machine."""

    version: str
    made: str
    fates: Mapping[State, Fate]

    def undamaged(self, kind: str) -> Fate:
        return self.fates[State(self.version, kind)]


def file_of(version: str) -> Path:
    return HERE / f"{version}.jsonl"


def load(version: str) -> Record:
    head, *lines = file_of(version).read_text(encoding="utf-8").splitlines()
    fates: Recorded = {}
    for line in lines:
        told = json.loads(line)
        kind, changes = told.pop("kind"), told.pop("changes", [])
        state = State(version, kind, tuple(map(tuple, changes)))
        fates[state] = _read(told, fates[State(version, kind)] if changes else Fate(True, None))
    return Record(version, json.loads(head)["made"], fates)


def save(record: Record) -> None:
    HERE.mkdir(exist_ok=True)
    lines = [json.dumps({"made": record.made}, ensure_ascii=False)]
    ordered = sorted(record.fates, key=lambda state: (bool(state.changes), state.name))
    for state in ordered:
        told: dict[str, Any] = {"kind": state.kind}
        base = Fate(started=True, code=None)
        if state.changes:
            told["changes"] = state.changes
            base = record.undamaged(state.kind)
        lines.append(json.dumps(told | _written(record.fates[state], base), ensure_ascii=False))
    file_of(record.version).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _written(fate: Fate, base: Fate) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not fate.started:
        found["started"] = False
    if fate.code is not None:
        found["code"] = fate.code
    loaded: dict[str, str | None] = {
        path: one.words() for path, one in fate.loaded.items() if base.loaded.get(path) != one
    }
    loaded |= dict.fromkeys(base.loaded.keys() - fate.loaded.keys())
    found["loaded"] = dict(sorted(loaded.items()))
    for name in ("renamed", "created", "offline", "resized"):
        found[name] = getattr(fate, name)
    for name in ("gone", "made"):
        found[name] = getattr(fate, name)
        if found[name] == getattr(base, name):
            del found[name]
        elif not found[name]:
            found[name] = ["nothing"]
    known = {_plain(line) for line in base.why}
    why = dict.fromkeys(_plain(line) for line in fate.why)
    found["why"] = [line for line in why if line not in known][:MOST_LINES] if base.loaded else []
    return {name: value for name, value in found.items() if value not in ({}, [], ())}


def _plain(line: str) -> str:
    """A line of a log without what differs from start to start."""
    return re.sub(r"[^\x20-\x7e]", "?", _RANDOM.sub("*", line))[:MOST_CHARACTERS]


def _read(told: Mapping[str, Any], base: Fate) -> Fate:
    loaded = dict(base.loaded)
    for path, words in told.get("loaded", {}).items():
        loaded.pop(path, None)
        if words is not None:
            loaded[path] = _loaded(words)
    return replace(
        base,
        started=told.get("started", True),
        code=told.get("code"),
        loaded=loaded,
        renamed=told.get("renamed", {}),
        created=tuple(told.get("created", ())),
        offline=tuple(told.get("offline", ())),
        resized={path: (a, b) for path, (a, b) in told.get("resized", {}).items()},
        gone=_files(told.get("gone"), base.gone),
        made=_files(told.get("made"), base.made),
        why=tuple(told.get("why", ())),
    )


def _files(told: list[str] | None, base: tuple[str, ...]) -> tuple[str, ...]:
    if told is None:
        return base
    return () if told == ["nothing"] else tuple(told)


def _loaded(words: str) -> Loaded:
    found = _LOADED.match(words)
    assert found is not None, words
    start, end, recovered, watermark, no_leader = found.groups()
    return Loaded(
        start=int(start),
        end=int(end),
        recovered=tuple(map(int, recovered.split(","))) if recovered else (),
        watermark=None if watermark is None else int(watermark),
        leads=no_leader is None,
    )


def merged(record: Record, fates: Iterable[tuple[State, Fate]], made: str) -> Record:
    return Record(record.version, made, {**record.fates, **dict(fates)})
