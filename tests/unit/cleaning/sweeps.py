"""Sweep a log directory in this process and return the findings as short tuples."""

from __future__ import annotations

from pathlib import Path

from winnow.storage.local import LocalStorage
from winnow.verbs.verify.directories import check_directory, check_log_dir
from winnow.verbs.verify.findings import Checked, Finding
from winnow.verbs.verify.segments import check_segment
from winnow.verbs.verify.verify import all_findings
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES


def swept(log_dir: Path, *, limit: int = MAX_DECOMPRESSED_BYTES) -> tuple[list[Finding], Checked]:
    storage = LocalStorage()
    checked = check_log_dir(storage, str(log_dir), topics=())
    found, total = list(checked.findings), Checked()
    for place in checked.partitions:
        directory = check_directory(storage, place)
        logs = [check_segment(storage, log, max_decompressed_bytes=limit) for log in directory.logs]
        found += all_findings(place, directory, logs)
        total += sum((log.checked for log in logs), Checked(partitions=1))
    return found, total


def findings(log_dir: Path, *, limit: int = MAX_DECOMPRESSED_BYTES) -> list[Finding]:
    return swept(log_dir, limit=limit)[0]


def brief(log_dir: Path) -> list[tuple[str, str, int | None]]:
    """Return (kind, file, byte) of each finding."""
    return [(f.kind.value, f.file, f.position) for f in findings(log_dir)]
