"""What a run has kept of a partition, as its manifests tell it (`winnow.logdir.keeping` writes them).

TOPIC-P/.winnow-kept-RUN/run.json             when, and the side files as they were before
TOPIC-P/.winnow-kept-RUN/000001/              one step: a replacement or a deletion
                                step.json     what went, and what took its place
                                N.log, ...    hard links to the files that went
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from winnow.errors import CorruptLogError
from winnow.logdir.names import KEPT_PREFIX, LOG, SEGMENT_SUFFIXES, SNAPSHOT, base_offset_of, segment_file
from winnow.storage.contract import Storage

RUN_JSON = "run.json"
STEP_JSON = "step.json"
VERSION = 1
_READ_BYTES = 16 * 2**20


class StepKind(StrEnum):
    REPLACED = "replaced"
    """Other segments took the place of these."""
    DELETED = "deleted"
    """The log begins later now."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    name: str
    size: int
    mtime_ns: int

    @property
    def suffix(self) -> str:
        return "." + self.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class Output:
    """A segment that took the place of others, known by its bytes."""

    base_offset: int
    log_bytes: int
    sha256: str
    """Of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Segments that went together."""

    path: str
    kind: StepKind
    files: tuple[KeptFile, ...]
    """All files of these segments, and producer snapshots that went with them."""
    outputs: tuple[Output, ...]
    """Ascending by base offset; none if the segments were deleted."""
    next_base: int | None
    """Base offset of the lowest segment that stayed, if they were deleted."""

    @property
    def bases(self) -> tuple[int, ...]:
        """Base offsets of the segments that went, ascending."""
        return tuple(sorted(base_offset_of(file.name) for file in self.files if file.suffix == LOG))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """What one run keeps of a partition."""

    run_id: str
    path: str
    kept_at_ms: int
    log_start_offset: int
    """This and the next three are as they were before the run."""
    log_start_checkpoint: int | None
    cleaner_checkpoint: int | None
    leader_epochs: tuple[tuple[int, int], ...]
    steps: tuple[Step, ...]
    """In the order in which they were done."""

    @property
    def bytes(self) -> int:
        """What purging it frees."""
        return sum(file.size for step in self.steps for file in step.files)

    @property
    def segments(self) -> int:
        return sum(len(step.bases) for step in self.steps)


def kept_path(directory: str, run_id: str) -> str:
    return f"{directory}/{KEPT_PREFIX}{run_id}"


def kept_run_ids(storage: Storage, directory: str) -> tuple[str, ...]:
    """Of every run that keeps something of a partition, ascending: those of Winnow begin with the time."""
    entries = storage.list_dir(directory)
    return tuple(
        entry.name.removeprefix(KEPT_PREFIX) for entry in entries if entry.is_dir and entry.name.startswith(KEPT_PREFIX)
    )


def read_kept(storage: Storage, directory: str, run_id: str) -> KeptRun:
    """Raises CorruptLogError for manifests that can't be understood, and for files that are not as they tell."""
    path = kept_path(directory, run_id)
    manifest = f"{path}/{RUN_JSON}"
    fields = read_manifest(storage, manifest)
    try:
        steps = tuple(_read_step(storage, f"{path}/{entry.name}") for entry in storage.list_dir(path) if entry.is_dir)
        return KeptRun(
            run_id=run_id,
            path=path,
            kept_at_ms=int(fields["kept_at_ms"]),
            log_start_offset=int(fields["log_start_offset"]),
            log_start_checkpoint=_optional(fields["log_start_checkpoint"]),
            cleaner_checkpoint=_optional(fields["cleaner_checkpoint"]),
            leader_epochs=tuple((int(epoch), int(offset)) for epoch, offset in fields["leader_epochs"]),
            steps=steps,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise not_understood(manifest, repr(error)) from None


def _read_step(storage: Storage, path: str) -> Step:
    manifest = f"{path}/{STEP_JSON}"
    fields = read_manifest(storage, manifest)
    try:
        step = Step(
            path=path,
            kind=StepKind(fields["kind"]),
            files=tuple(KeptFile(_name(f["name"]), int(f["size"]), int(f["mtime_ns"])) for f in fields["files"]),
            outputs=tuple(
                Output(int(out["base_offset"]), int(out["log_bytes"]), str(out["sha256"])) for out in fields["outputs"]
            ),
            next_base=_optional(fields["next_base"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise not_understood(manifest, repr(error)) from None
    deleted = step.kind is StepKind.DELETED
    if not step.bases or deleted is (step.next_base is None) or deleted is bool(step.outputs):
        raise not_understood(manifest, "a step without a segment, or without what came of it")
    there = {entry.name: entry for entry in storage.list_dir(path)}
    for file in step.files:
        entry = there.get(file.name)
        if entry is None or (entry.is_file, entry.size, entry.mtime_ns) != (True, file.size, file.mtime_ns):
            raise CorruptLogError(
                "a kept file is not as it was",
                expected=f"{file.size} bytes of {file.mtime_ns}",
                found="nothing" if entry is None else f"{entry.size} bytes of {entry.mtime_ns}",
                where=f"{path}/{file.name}",
                hint="What is kept can't be put back. `recover --purge` removes it.",
            )
    return step


def read_manifest(storage: Storage, path: str) -> Mapping[str, Any]:
    """A JSON object of this version. Raises CorruptLogError for anything else."""
    try:
        fields = json.loads(storage.read_bytes(path))
    except (FileNotFoundError, ValueError) as error:
        raise not_understood(path, repr(error)) from None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        raise not_understood(path, "another version")
    return fields


def encode_manifest(fields: Mapping[str, object]) -> bytes:
    return json.dumps({"version": VERSION, **fields}, indent=1).encode()


def sha256_of(storage: Storage, path: str, start: int, end: int) -> str:
    """Of bytes [start, end) of a file."""
    digest = hashlib.sha256()
    while start < end:
        part = storage.read_range(path, start, min(_READ_BYTES, end - start))
        if not part:
            break
        digest.update(part)
        start += len(part)
    return digest.hexdigest()


def identify(storage: Storage, base_offset: int, path: str) -> Output:
    """The segment whose log is at `path`, read to its end."""
    size = storage.entry(path).size
    return Output(base_offset, size, sha256_of(storage, path, 0, size))


def _name(value: object) -> str:
    """A name is part of a path: only those of segments are let in."""
    name = str(value)
    suffix = "." + name.partition(".")[2]
    if suffix not in (*SEGMENT_SUFFIXES, SNAPSHOT) or name != segment_file(base_offset_of(name), suffix):
        raise ValueError(name)
    return name


def _optional(value: object) -> int | None:
    return None if value is None else int(str(value))


def not_understood(path: str, found: str) -> CorruptLogError:
    return CorruptLogError(
        "a manifest can't be understood",
        expected=f"one of version {VERSION}",
        found=found,
        where=path,
        hint="Another version of Winnow may have written it. `recover --purge` removes what is kept.",
    )
