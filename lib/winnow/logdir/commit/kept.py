"""What a run has kept of a partition, read from its manifests (`winnow.logdir.commit.keeping`
writes them).

TOPIC-P/.winnow-kept-RUN/run.json             the time, and the log and side files before the run
TOPIC-P/.winnow-kept-RUN/closed.json          an erasure has closed it: undo is refused
TOPIC-P/.winnow-kept-RUN/000001/              one step: a replacement or a deletion
                                step.json     what was removed, and what replaced it
                                N.log, ...    hard links to the removed files
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from winnow.errors import CorruptLogError
from winnow.logdir.commit.bound_log import BoundLog
from winnow.logdir.files import Files, files_in, pieces, tree_bytes
from winnow.logdir.names import KEPT_PREFIX, LOG, SEGMENT_SUFFIXES, SNAPSHOT, base_offset_of
from winnow.logdir.stored import FromMinusOne, Natural, stored
from winnow.storage.contract import Storage
from winnow.storage.own_json import MAX_LONG, JsonValue, read_json

RUN_JSON = "run.json"
STEP_JSON = "step.json"
CLOSED_JSON = "closed.json"
VERSION = 1
_HINT = "Another version of Winnow may have written it. `recover --purge` removes what is kept."


class StepKind(StrEnum):
    REPLACED = "replaced"
    """Other segments replaced these."""
    DELETED = "deleted"
    """The start of the log was deleted."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    name: str
    size: Natural
    mtime_ns: int

    @property
    def base_offset(self) -> int:
        return base_offset_of(self.name)

    @property
    def suffix(self) -> str:
        return "." + self.name.partition(".")[2]

    def is_in(self, files: Files) -> bool:
        """Whether the file is among these, and has not changed."""
        entry = files.get(self.name)
        return entry is not None and (entry.size, entry.mtime_ns) == (self.size, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class KeptOutput:
    """A segment that replaced others, identified by its bytes."""

    base_offset: Natural
    log_bytes: Natural
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Segments that were removed together."""

    path: str
    kind: StepKind
    files: tuple[KeptFile, ...]
    """All files of these segments, and the producer snapshots that were removed with them."""
    outputs: tuple[KeptOutput, ...]
    """Ascending by base offset. Empty if the segments were deleted."""
    next_base: Natural | None
    """Base offset of the lowest retained segment, if these were deleted."""

    @property
    def bases(self) -> tuple[int, ...]:
        """Return the base offsets of the removed segments, ascending."""
        return tuple(sorted(file.base_offset for file in self.files if file.suffix == LOG))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """What one run keeps of a partition."""

    run_id: str
    path: str
    kept_at_ms: int
    log_start_offset: Natural
    """This and the next three fields hold the values before the run."""
    log_start_checkpoint: FromMinusOne | None
    cleaner_checkpoint: int | None
    leader_epochs: tuple[tuple[FromMinusOne, FromMinusOne], ...]
    log: BoundLog | None = None
    """The log before the run. None: an older version of Winnow kept this."""
    cleaner_checkpoint_after: Natural | None = None
    """Where the run moves the cleaner checkpoint, if it does."""
    closed_by: str | None
    """Why an undo is refused, such as an erasure. None: it is allowed."""
    steps: tuple[Step, ...]
    """In the order in which they were done."""
    bytes: int
    """What a purge frees: of all files that are kept, and of those that describe them."""

    @property
    def segments(self) -> int:
        return sum(len(step.bases) for step in self.steps)


def kept_path(directory: str, run_id: str) -> str:
    return f"{directory}/{KEPT_PREFIX}{run_id}"


def kept_run_ids(storage: Storage, directory: str) -> tuple[str, ...]:
    """Return the ids of all runs that keep something of a partition, ascending."""
    entries = storage.list_dir(directory)
    return tuple(
        entry.name.removeprefix(KEPT_PREFIX)
        for entry in entries
        if entry.is_dir and entry.name.startswith(KEPT_PREFIX)
    )


def read_kept(storage: Storage, directory: str, run_id: str) -> KeptRun:
    """Raises CorruptLogError for unreadable manifests, and files that do not match them."""
    path = kept_path(directory, run_id)
    manifest = read_manifest(storage, f"{path}/{RUN_JSON}")
    steps = [entry.name for entry in storage.list_dir(path) if entry.is_dir]
    return stored(
        manifest,
        KeptRun,
        beside=None,
        run_id=run_id,
        path=path,
        closed_by=_closed_by(storage, path),
        steps=tuple(_read_step(storage, f"{path}/{name}") for name in steps),
        bytes=tree_bytes(storage, path),
    )


def close_kept(storage: Storage, directory: str, *, why: str) -> tuple[str, ...]:
    """Close everything that runs kept of a partition so far: none of it can be put back any more.
    Return the ids of those runs. Hold the lock.

    `why`: who closed them, as `an erasure (run ID)`. They can still be purged.
    """
    run_ids = kept_run_ids(storage, directory)
    for run_id in run_ids:
        path = kept_path(directory, run_id)
        if not storage.exists(f"{path}/{CLOSED_JSON}"):
            storage.create(f"{path}/{CLOSED_JSON}", encode_manifest({"why": why}))
            storage.fsync_dir(path)
    return run_ids


def _closed_by(storage: Storage, path: str) -> str | None:
    """Return why it is closed. A half-written file counts as closed: a crash has left it."""
    if not storage.exists(f"{path}/{CLOSED_JSON}"):
        return None
    try:
        manifest = read_manifest(storage, f"{path}/{CLOSED_JSON}")
        return manifest.fields(["why"], None)["why"].text()
    except CorruptLogError:
        return "an erasure"


def _read_step(storage: Storage, path: str) -> Step:
    manifest = read_manifest(storage, f"{path}/{STEP_JSON}")
    step = stored(manifest, Step, beside=None, path=path)
    fields = manifest.fields((), None)
    for raw in fields["files"].items():
        _check_name(raw.fields((), None)["name"])
    deleted = step.kind is StepKind.DELETED
    if not step.bases or deleted is (step.next_base is None) or deleted is bool(step.outputs):
        raise fields["kind"].refused("segments and their outcome", "one without the other")
    there = files_in(storage, path)
    for file in step.files:
        if not file.is_in(there):
            entry = there.get(file.name)
            raise CorruptLogError(
                "a kept file has changed",
                expected=f"{file.size} bytes of {file.mtime_ns}",
                found="nothing" if entry is None else f"{entry.size} bytes of {entry.mtime_ns}",
                where=f"{path}/{file.name}",
                hint="The kept files can't be restored. `recover --purge` removes them.",
            )
    return step


def read_manifest(storage: Storage, path: str) -> JsonValue:
    """Return a manifest of this version. Raises CorruptLogError for anything else."""
    manifest = read_json(storage, path, hint=_HINT)
    manifest.fields({"version"}, None)["version"].version(VERSION)
    return manifest


def encode_manifest(fields: Mapping[str, object]) -> bytes:
    return json.dumps({"version": VERSION, **fields}, indent=1).encode()


def sha256_of(storage: Storage, path: str, start: int, end: int) -> str:
    """Return the SHA-256 of bytes [start, end) of a file."""
    digest = hashlib.sha256()
    for _, piece in pieces(storage, path, start, end):
        digest.update(piece)
    return digest.hexdigest()


def identify(storage: Storage, base_offset: int, path: str) -> KeptOutput:
    """Identify the segment whose log is at `path`. Reads the whole log."""
    size = storage.entry(path).size
    return KeptOutput(base_offset, size, sha256_of(storage, path, 0, size))


def _check_name(value: JsonValue) -> None:
    """A name becomes part of a path, so only names of segment files are accepted."""
    name = value.text()
    digits, suffix = name[:20], name[20:]
    known = suffix in {*SEGMENT_SUFFIXES, SNAPSHOT} and digits.isascii() and digits.isdigit()
    if not known or int(digits) > MAX_LONG:
        raise value.refused("the name of a segment's file")
