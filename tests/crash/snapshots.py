"""Every state of a log directory that a run goes through, as a kill would leave it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tests.crash.replay import CrashPoint, RecordingStorage, fingerprint
from tests.fixtures.data import copy_tree
from winnow.storage.turns import waiting


class Snapshots(RecordingStorage):
    """A copy of the log directory as it is before each effect: what a kill at that instant leaves.
    Tasks write, too. The effects of partitions that are committed side by side come one at a time.
    """

    def __init__(self, root: Path, scratch: Path) -> None:
        super().__init__(root)
        self._root_path, self._scratch = root, scratch
        self.points: list[CrashPoint] = []
        self._seen: set[str] = set()
        self.one_at_a_time = threading.RLock()

    def take(self, label: str) -> None:
        found = fingerprint(self._root_path)
        if found not in self._seen:
            self._seen.add(found)
            copy = self._scratch / f"{len(self.points):04d}"
            copy_tree(self._root_path, copy)
            self.points.append(CrashPoint(copy, label, in_order=True))


def _before(method: str) -> Callable[..., None]:
    def effect(self: Snapshots, *arguments: object) -> None:
        with waiting(), self.one_at_a_time:
            self.take(f"before {method} {arguments[0]}")
            getattr(RecordingStorage, method)(self, *arguments)

    return effect


for _method in ("create", "rename", "unlink", "mkdir", "rmdir"):
    setattr(Snapshots, _method, _before(_method))
