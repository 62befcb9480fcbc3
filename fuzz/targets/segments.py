"""A whole partition directory: listed, walked, recovered and described as the verbs do it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fuzz.scratch import directory, storage, written
from fuzz.targets.base import LIMIT, Target, require
from fuzz.targets.batches import sealed
from tests.fixtures.data import unpacked
from winnow.errors import CorruptLogError
from winnow.logdir.commit.recovery import recover
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.listing import list_segments
from winnow.logdir.lookup import Segments
from winnow.logdir.names import SWAP
from winnow.survey.walk import TransactionsWanted, walk_segment
from winnow.verbs.inspect.files import describe_file, list_directory
from winnow.verbs.inspect.values import FileProblem
from winnow.verbs.verify.directories import check_directory
from winnow.verbs.verify.findings import Scope
from winnow.verbs.verify.segments import check_segment
from winnow.wire.batch import BATCH
from winnow.wire.walk import walk_batches

_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_BASE = 0
_ACTIVE = 2**31
"""Base offset of the segment after it."""


def _split(data: bytes) -> dict[str, bytes]:
    """Byte 0: whether CRCs are made right first; then five times a length of 2 bytes and the
    content of a file.
    """
    files, at = {}, 1
    for suffix in _SUFFIXES:
        size = int.from_bytes(data[at : at + 2], "big") % 4096
        content = data[at + 2 : at + 2 + size]
        if content or suffix == ".log":
            files[f"{_BASE:020d}{suffix}"] = content
        at += 2 + size
    if data[:1] >= b"\x20":
        log = f"{_BASE:020d}.log"
        files[log] = sealed(files[log])
    return files


def _joined(files: dict[str, bytes]) -> bytes:
    return b"\x20" + b"".join(
        len(c).to_bytes(2, "big") + c for c in (files.get(s, b"") for s in _SUFFIXES)
    )


class _Partition:
    """The files in a temporary directory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self.path = f"{directory()}/t-0"

    def __enter__(self) -> str:
        os.makedirs(self.path, exist_ok=True)
        for name, content in self._files.items():
            written(f"t-0/{name}", content)
        return self.path

    def __exit__(self, *_: object) -> None:
        for name in os.listdir(self.path):
            os.unlink(f"{self.path}/{name}")


def _walk(data: bytes) -> None:
    """What a plan rests on: the listing, and the walk with producers and transactions."""
    with _Partition(_split(data)) as path:
        listing = list_segments(storage, path)
        segment = listing.segments[0]
        wanted = TransactionsWanted(
            high_watermark=2**62,
            log_start_offset=0,
            end_offset=None,
            txn_index=segment.txnindex_bytes is not None,
        )
        walk = walk_segment(
            path,
            _BASE,
            segment.log_bytes,
            producers_from=0,
            check_index=segment.index_bytes is not None,
            transactions=wanted,
        )
        require(
            sum(split.end - split.start for split in walk.splits) == segment.log_bytes,
            "bytes outside of splits",
        )
        if listing.problems:
            raise listing.problems[0]


def _sweep(data: bytes) -> None:
    """Never raises for what is in a file, and finds whatever a walk would refuse."""
    scope = Scope(str(directory()), "t-0", "t", 0)
    with _Partition(_split(data)):
        found = check_directory(storage, scope)
        findings = list(found.findings)
        for log in found.logs:
            findings += check_segment(storage, log, max_decompressed_bytes=LIMIT).findings
    if findings:
        raise CorruptLogError(findings[0].message)
    try:
        _walk(data)
    except CorruptLogError as error:
        require(holds=False, what=f"the sweep says it is sound, the walk says {error}")


def _inspect(data: bytes) -> None:
    """Never raises for what is in a file."""
    with _Partition(_split(data)) as path:
        files = list_directory(storage, path)
        lines = [
            line
            for name in files.entries
            for line in describe_file(storage, files, name, records=True).lines
        ]
        segments = Segments(storage, path)
        for find in (segments.find_offset, segments.find_timestamp):
            find(int.from_bytes(data[-3:], "big"))
        problems = [line for line in lines if isinstance(line, FileProblem)]
        if problems:
            raise CorruptLogError(problems[0].message)


def _recover(data: bytes) -> None:
    """A `.swap` log over its source, below an active segment: it takes its place whole, or nothing
    changes.
    """
    files = _split(data)
    log = f"{_BASE:020d}.log"
    swap = {
        log: files[log],
        f"{_BASE:020d}.snapshot": b"s",
        log + SWAP: files[log],
        f"{_ACTIVE:020d}.log": b"",
    }
    with _Partition(swap) as path:
        try:
            recover(storage, path)
        except CorruptLogError:
            require(dict(_content(path)) == swap, "a refused recovery changed the directory")
            raise
        require(
            dict(_content(path))[log] == files[log], "the log is not the one that was to replace it"
        )
        recover(storage, path)


def _content(path: str) -> Iterator[tuple[str, bytes]]:
    for name in os.listdir(path):
        yield name, Path(path, name).read_bytes()


def _seeds() -> list[bytes]:
    """The small segments of recorded partitions that begin at 0, cut to a few batches."""
    seeds = []
    for log_dir in ("clean", "legacy"):
        for log in sorted(unpacked(f"before-{log_dir}").glob(f"{log_dir}/*/{_BASE:020d}.log")):
            data = log.read_bytes()[:1500]
            end = 0
            while end + 12 <= len(data) and end + 12 + (
                size := int.from_bytes(data[end + 8 : end + 12])
            ) <= len(data):
                end += 12 + size
            if end:
                files = {".log": data[:end], **_indexes(data[:end])}
                for suffix in (".txnindex", ".snapshot"):
                    beside = log.with_suffix(suffix)
                    if beside.exists():
                        files[suffix] = beside.read_bytes()[:500]
                seeds.append(_joined(files))
    return seeds


def _indexes(log: bytes) -> dict[str, bytes]:
    rows = np.zeros(len(log) // 26 + 1, BATCH)
    count, _, _ = walk_batches(log, 0, _BASE, rows)
    builder = IndexBuilder(base_offset=_BASE, index_interval_bytes=0)
    builder.append(rows[:count])
    return dict(zip((".index", ".timeindex"), builder.finish(), strict=True))


TARGETS = {
    "segment": Target(check=_walk, seeds=_seeds, weight=1),
    "sweep": Target(check=_sweep, seeds=_seeds, weight=1),
    "inspect": Target(check=_inspect, seeds=_seeds, weight=1),
    "recovery": Target(check=_recover, seeds=_seeds, weight=1),
}
