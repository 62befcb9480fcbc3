"""The most memory that a process and all that it started held at once, as proportional set sizes
(PSS).

What processes share, such as mapped segments and what was loaded before a fork, is counted once
among them.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_EVERY_S = 0.5


class PeakMemory:
    """A context that samples a process twice a second. Linux only: elsewhere the peak is 0."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._finished = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="peak-memory", daemon=True)
        self.anonymous_bytes = 0
        """The peak of what is the processes' own: without mapped files, which the page cache holds
        anyway.
        """
        self.bytes = 0
        """The peak of all, mapped files included."""
        self.jvm_bytes = 0
        """The peak of what is Java's own."""

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finished.set()
        self._watcher.join()

    def _watch(self) -> None:
        while True:
            found = {pid: memory_of(pid) for pid in tree_of(self._pid)}
            self.bytes = max(self.bytes, sum(whole for whole, _ in found.values()))
            self.anonymous_bytes = max(
                self.anonymous_bytes, sum(anonymous for _, anonymous in found.values())
            )
            jvms = (anonymous for pid, (_, anonymous) in found.items() if name_of(pid) == "java")
            self.jvm_bytes = max(self.jvm_bytes, sum(jvms))
            if self._finished.wait(_EVERY_S):
                return


def tree_of(pid: int) -> list[int]:
    """The process and all that it started and that are still there."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = (
                entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            )
        except OSError:
            continue  # it has ended
        children.setdefault(int(after_name[1]), []).append(int(entry.parent.name))
    tree = [pid]
    for parent in tree:
        tree += children.get(parent, [])
    return tree


def name_of(pid: int) -> str:
    """Empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def memory_of(pid: int) -> tuple[int, int]:
    """PSS in all, and that of anonymous memory, in bytes; nothing of a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0, 0
    sizes = {line.partition(":")[0]: line.split() for line in lines if line.startswith("Pss")}
    whole, anonymous = (
        int(sizes[name][1]) * 1024 if name in sizes else 0 for name in ("Pss", "Pss_Anon")
    )
    return whole, anonymous
