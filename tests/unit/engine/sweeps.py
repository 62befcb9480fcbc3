"""Sweeps over a log directory in this process, and what they found as short tuples."""

from __future__ import annotations

from pathlib import Path

from winnow.engine.sweep.findings import Checked, Finding
from winnow.engine.sweep.log_dirs import check_log_dir
from winnow.engine.sweep.partitions import check_partition
from winnow.storage.local import LocalStorage
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES


def swept(log_dir: Path, *, limit: int = MAX_DECOMPRESSED_BYTES) -> tuple[list[Finding], Checked]:
    storage = LocalStorage()
    checked = check_log_dir(storage, str(log_dir), topics=())
    found, total = list(checked.findings), Checked()
    for place in checked.partitions:
        findings, more = check_partition(storage, checked, place, max_decompressed_bytes=limit)
        found += findings
        total += more
    return found, total


def findings(log_dir: Path, *, limit: int = MAX_DECOMPRESSED_BYTES) -> list[Finding]:
    return swept(log_dir, limit=limit)[0]


def brief(log_dir: Path) -> list[tuple[str, str, int | None]]:
    """(kind, file, byte) of each."""
    return [(f.kind.value, f.file, f.position) for f in findings(log_dir)]
