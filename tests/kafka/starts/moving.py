"""States in the middle of a move between log directories, or of the deletion of a topic: recorded,
but not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fixtures.data import unpacked
from tests.kafka.starts.changes import Change
from tests.kafka.starts.table import State
from winnow.logdir.names import LEADER_EPOCHS, PARTITION_METADATA, REMOTE_INDEX_CACHE

_ENDING = ".0123456789abcdef0123456789abcdef"


def moving(version: str, kind: str) -> Iterator[State]:
    if kind == "alone":
        return
    for changes in _changes(version, kind):
        yield State(version, kind, changes)


def _changes(version: str, kind: str) -> Iterator[tuple[Change, ...]]:
    root = unpacked(f"starts-{version}") / kind
    (found,) = root.glob("?/d-0")
    here = str(found.relative_to(root))
    log_dir = here[0]
    future = f"{'b' if log_dir == 'a' else 'a'}/d-0{_ENDING}-future"
    begun: Change = ("mkdir", future)
    log: Change = ("write", f"{future}/{0:020d}.log", "")
    yield (begun,)
    yield (begun, log)
    if (found / PARTITION_METADATA).exists():
        copied = ("copy", f"{future}/{PARTITION_METADATA}", f"{here}/{PARTITION_METADATA}")
        yield (begun, log, copied)
        yield (begun, copied)
    active = max(found.glob("*.log")).name
    yield (("copy", future, here), ("remove", f"{future}/{active}"))
    yield (("copy", f"{here}{_ENDING}-delete", here),)
    yield (("mkdir", f"{here}{_ENDING}-delete"),)
    for ending in ("delete", "stray"):
        gone = f"{log_dir}/gone-0{_ENDING}-{ending}"
        yield (("mkdir", gone), ("write", f"{gone}/{PARTITION_METADATA}", ""))
        yield (("copy", gone, here), ("garbage", f"{gone}/{LEADER_EPOCHS}"))
    yield (("write", f"a/{REMOTE_INDEX_CACHE}", "x"),)
