"""States in the middle of a swap: recorded, but not drawn."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fixtures.data import unpacked
from tests.kafka.starts.changes import Change
from tests.kafka.starts.table import State


def _partition(version: str, kind: str, name: str) -> str:
    root = unpacked(f"starts-{version}") / kind
    (found,) = root.glob(f"?/{name}")
    return str(found.relative_to(root))


def swaps(version: str, kind: str) -> Iterator[State]:
    """`.swap` and `.cleaned` files: of a topic that is not compacted, and of one that is."""
    for changes in _changes(version, kind):
        yield State(version, kind, changes)


def _changes(version: str, kind: str) -> Iterator[tuple[Change, ...]]:
    if kind == "stopped":
        return
    root = unpacked(f"starts-{version}") / kind
    for name in ("d-0", "c-0") if kind == "alone" else ("d-0",):
        found = sorted((root / _partition(version, kind, name)).glob("*.log"))
        first, second, third, *_, active = (str(one.relative_to(root)) for one in found)
        index, timeindex = (second.replace(".log", f".{one}index") for one in ("", "time"))
        cleaned = f"{first.replace('.log', '.index')}.cleaned"
        swap, copy = f"{second}.swap", ("copy", f"{second}.swap", second)
        aside = ("move", second, swap)
        joined = ("join", f"{first}.swap", first, second)
        yield (("write", swap, ""),)
        yield (("write", swap, ""), ("garbage", swap))
        yield (copy, ("zero", swap))
        yield (aside,)
        yield (aside, ("move", index, f"{index}.swap"), ("move", timeindex, f"{timeindex}.swap"))
        yield (copy, ("cut", swap, "50"))
        yield (copy, ("batches", swap, "3"))
        yield (copy, ("batches", swap, "3"), ("copy", f"{index}.swap", index))
        yield (aside, ("write", f"{first}.cleaned", ""))
        yield (aside, ("write", cleaned, ""))
        yield (copy, ("write", f"{first}.cleaned", ""))
        yield (copy, ("write", f"{third}.cleaned", ""))
        yield (joined,)
        yield (joined, ("move", second, f"{second}.deleted"))
        yield (("move", second, f"{second}.deleted"), ("write", swap, ""))
        yield (("remove", second), ("write", swap, ""))
        yield (("move", index, f"{index}.swap"),)
        yield (("write", f"{index}.swap", ""),)
        yield (("write", f"{timeindex}.swap", ""),)
        yield (copy, ("write", f"{index}.swap", ""), ("garbage", f"{index}.swap"))
        yield (("move", active, f"{active}.swap"),)
        yield (("copy", f"{active}.swap", active), ("cut-bytes", f"{active}.swap", "10"))
        yield (("write", f"{active}.swap", ""),)
    partition = _partition(version, kind, "t-0")
    segment = min((root / partition).glob("*.txnindex")).relative_to(root)
    yield (("write", f"{segment}.swap", ""),)
    yield (("write", f"{segment}.swap", ""), ("garbage", f"{segment}.swap"))
    yield (("write", f"{partition}/x.log.swap", ""),)
    yield (("write", f"{partition}/x.cleaned", ""),)
    yield (("write", f"{partition}/5.log.cleaned", ""),)
    yield (("write", f"{partition}/cleaned", ""),)
    yield (("write", f"{partition}/.cleaned", ""),)
