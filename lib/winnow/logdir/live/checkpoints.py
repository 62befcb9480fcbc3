"""The checkpoints of a running broker. It writes them every few seconds, so they may have offsets
from before a truncation (S8.11).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from winnow.logdir.live.partition import small_content
from winnow.logdir.names import OFFSET_CHECKPOINTS
from winnow.storage.contract import entry_if_there
from winnow.storage.local import LocalStorage

_LOCAL = LocalStorage()
_OFFSET = re.compile(rb"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    data: bytes | None
    """The content. None: it can't be read, and readers report why."""
    written_ns: int
    """When it was written, in ns since 1970."""


def read_checkpoints(log_dir: str) -> dict[str, Checkpoint]:
    """Return the checkpoints of offsets in a log directory, by name."""
    found = {}
    for name in OFFSET_CHECKPOINTS:
        entry = entry_if_there(_LOCAL, f"{log_dir}/{name}")
        if entry is not None:
            found[name] = Checkpoint(small_content(f"{log_dir}/{name}"), entry.mtime_ns)
    return found


def as_written_next(checkpoint: Checkpoint, ends: Mapping[bytes, int]) -> bytes | None:
    """Return the content that the broker writes next: each offset is at most the log end offset.

    `ends`: log end offsets by name of the partition, of logs that were written to since the
    checkpoint was. A higher offset is from before a truncation.
    """
    if checkpoint.data is None:
        return None
    lines = checkpoint.data.split(b"\n")
    for number, line in enumerate(lines):
        at, _, offset = line.rpartition(b" ")
        end = ends.get(at.replace(b" ", b"-"))
        if end is not None and _OFFSET.fullmatch(offset) and int(offset) > end:
            lines[number] = b"%b %d" % (at, end)
    return b"\n".join(lines)
