"""Measure how much memory it takes to clean or read partitions. Runs as its own process and prints
one result per partition: python -m tests.unit.cleaning.appetite
{MAX_DECOMPRESSED_BYTES|read}:PARTITION_DIRECTORY...
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from tests.unit.cleaning.partitions import NOW, SECRET, job_of
from tests.unit.kafka_log.reading import scan
from winnow.cleaning.rewrite.output import GroupOutput
from winnow.cleaning.rewrite.rewrite import rewrite_group
from winnow.errors import CorruptLogError
from winnow.scan.resolve import resolve_bucket
from winnow.scan.scan import scan_split
from winnow.worker.warm_up import warm_up


def main(*partitions: str) -> None:
    warm_up()
    split = [partition.split(":", 1) for partition in partitions]
    sys.stdout.write(json.dumps([appetite(Path(directory), how) for how, directory in split]))


def appetite(directory: Path, how: str) -> tuple[int, str]:
    """Return the MiB used beyond the start, and why the partition was refused, if it was."""
    gc.collect()
    # Reset the peak to the current use.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = peak_mib()
    told = ""
    try:
        if how == "read":
            read(directory)
        else:
            clean(directory, int(how))
    except CorruptLogError as error:
        told = str(error)
    return peak_mib() - before, told


def clean(directory: Path, limit: int) -> None:
    """Clean all segments as one group, as a task does."""
    job = job_of(directory, max_decompressed_bytes=limit, end_offset=2**62)
    blobs = [
        blob for number in range(len(job.splits)) for _, blob in scan_split(job, number, SECRET)
    ]
    os.makedirs(job.staging, exist_ok=True)
    rewrite_group(GroupOutput(job, job.groups[0], resolve_bucket(blobs), now=NOW))()


def read(directory: Path) -> None:
    """Read as a task of a `kafka-log` query does."""
    reader, partitions = scan(directory, mode="FAILFAST")
    for partition in partitions:
        for _ in reader.read(partition):
            pass


def peak_mib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
