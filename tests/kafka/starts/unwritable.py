"""States with files that the broker's user may not write, or that have lost their end: recorded,
but not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fixtures.data import unpacked
from tests.kafka.starts.changes import Change
from tests.kafka.starts.table import METADATA, State
from winnow.logdir.names import (
    INDEX,
    LEADER_EPOCHS,
    LOCK,
    RECOVERY_POINT_CHECKPOINT,
    TIMEINDEX,
    TXNINDEX,
)

_READ_ONLY = "444"
_ANOTHER_USER = "12345"


def unwritable(version: str, kind: str) -> Iterator[State]:
    for changes in _changes(version, kind):
        yield State(version, kind, changes)


def _changes(version: str, kind: str) -> Iterator[tuple[Change, ...]]:
    root = unpacked(f"starts-{version}") / kind
    for log_dir in sorted({path.name for path in root.glob("[ab]")}):
        yield _read_only(f"{log_dir}/{LOCK}")
    places = {name: str(next(root.glob(f"?/{name}")).relative_to(root)) for name in ("d-0", "t-0")}
    for directory in (*places.values(), *([] if version == "2.8.2" else [METADATA])):
        yield _read_only(f"{directory}/{LEADER_EPOCHS}.tmp")
        yield (("mkdir", f"{directory}/{LEADER_EPOCHS}.tmp"),)
    segments = sorted((root / places["t-0"]).glob("*.log"))
    for segment in segments[-2:]:
        for suffix in (INDEX, TIMEINDEX, TXNINDEX):
            path = segment.with_suffix(suffix)
            if path.exists():
                yield (("mode", str(path.relative_to(root)), _READ_ONLY),)
    if kind == "alone":
        directory = root / places["d-0"]
        logs = sorted(directory.glob("*.log"))
        for path in (
            *(logs[1], logs[-1], logs[1].with_suffix(INDEX), logs[-1].with_suffix(INDEX)),
            *(directory / LEADER_EPOCHS, min(directory.glob("*.snapshot")), directory),
            root / "a" / RECOVERY_POINT_CHECKPOINT,
        ):
            yield (("own", str(path.relative_to(root)), _ANOTHER_USER),)
        second = sorted((root / places["d-0"]).glob("*.log"))[1].relative_to(root)
        yield (("batches", str(second), "1"),)
        yield (("empty", str(second)),)


def _read_only(path: str) -> tuple[Change, ...]:
    return ("write", path, ""), ("mode", path, _READ_ONLY)
