"""Check the cluster's metadata log, `__cluster_metadata-0`, which is no partition (S9.3).

A broker recovers it from its first batch at every start, so nothing of its indexes matters
(`KafkaRaftLog`). It deletes its old snapshots a minute after it renames them, and at its next start
those that a stop left. Nobody compacts it: its batches follow each other without a gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.files import files_in
from winnow.logdir.metadata import METADATA_DIR, read_cluster_metadata
from winnow.logdir.metadata_log import decompression_budget, list_snapshots, read_snapshot
from winnow.logdir.names import BOOTSTRAP_CHECKPOINT, DELETED, LOG, QUORUM_STATE
from winnow.storage.contract import Entry, Storage, read_if_there
from winnow.verbs.verify.findings import Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.words import counted

_NEWEST = (
    "It is the newest snapshot: a broker does not start with it, or starts without what it lacks"
)
_COVERED = (
    "The log, or an older snapshot with the log, has all that it had: move this file elsewhere"
)
_UNFINISHED = ".checkpoint.part"


def is_metadata_log(scope: Scope) -> bool:
    return scope.name == METADATA_DIR


def without_deleted(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without those that any stop may leave, and that the next start removes."""
    return [entry for entry in entries if not entry.name.endswith((DELETED, _UNFINISHED))]


def metadata_findings(
    storage: Storage, scope: Scope, of_files: Sequence[Finding]
) -> Iterator[Finding]:
    """Yield what is wrong with the metadata log. `of_files`: what is wrong with its files, each
    checked alone.
    """
    if any(finding.kind is Kind.LINK for finding in of_files):  # its files are not looked at
        yield from of_files
        return
    problem = _problem_of_records(storage, scope)
    own = [*_snapshots(storage, scope, problem), *_quorum_state(storage, scope)]
    named = {finding.file for finding in own}
    rest = [finding for finding in of_files if finding.file not in named]
    yield from rest
    yield from own
    if problem is not None and not any(finding.is_damage for finding in rest):
        yield scope.finding(Kind.METADATA, "", problem)


def _problem_of_records(storage: Storage, scope: Scope) -> str | None:
    """Return why the snapshots and the log do not give the topics of the partitions beside them."""
    aside = "" if not scope.beside else f". {_set_aside(scope.beside)}"
    try:
        state = read_cluster_metadata(storage, scope.directory, unclean=True)
    except FAILS_ONE_PARTITION as error:
        if not (scope.beside or _has_bytes(storage, scope)):
            return None  # a node that has not started yet
        return f"{scope.finding(Kind.METADATA, '', error).message}{aside}"
    if scope.beside and not state.topics:
        many = counted(scope.beside, "partition")
        return f"expected the topics of {many}, found none{aside}"
    return None


def _has_bytes(storage: Storage, scope: Scope) -> bool:
    entries = storage.list_dir(scope.directory)
    return any(entry.size for entry in entries if entry.name.endswith((LOG, ".checkpoint")))


def _snapshots(storage: Storage, scope: Scope, problem: str | None) -> Iterator[Finding]:
    """Check header, records and footer of each snapshot. `problem`: why the other snapshots and the
    log do not give the topics.

    Their compressed batches have one budget, and a file with several names is read once.
    """
    budget, files, read = decompression_budget(), files_in(storage, scope.directory), set[object]()
    for number, (_, name) in enumerate(list_snapshots(storage, scope.directory)):
        inode = files[name].inode if name in files else ()
        if inode and inode in read:
            continue
        read.add(inode)
        try:
            read_snapshot(storage, f"{scope.directory}/{name}", budget=budget)
        except FAILS_ONE_PARTITION as error:
            found = scope.finding(Kind.METADATA, name, error)
            what = found.message
            if number:
                what += ". A broker reads a newer snapshot"
            else:
                what += f". {_NEWEST}"
                if problem is None:
                    what += f". {_COVERED}"
            yield scope.finding(Kind.METADATA, name, what, position=found.position)


def _quorum_state(storage: Storage, scope: Scope) -> Iterator[Finding]:
    """Yield why a broker can't read the state of its votes (`FileQuorumStateStore`). It may be
    missing.
    """
    try:
        data = read_if_there(storage, f"{scope.directory}/{QUORUM_STATE}")
        problem = None if data is None else _problem_of_state(data)
    except FAILS_ONE_PARTITION as error:
        yield scope.finding(Kind.METADATA, QUORUM_STATE, error)
        return
    if problem is not None:
        what = f"expected a JSON object with data_version, found {problem}: a broker does not start"
        yield scope.finding(Kind.METADATA, QUORUM_STATE, what)


def _problem_of_state(data: bytes) -> str | None:
    if not data:
        return "no byte"
    try:
        state = json.loads(data)
    except (ValueError, RecursionError):
        return f"{len(data)} bytes that are no JSON"
    return None if isinstance(state, Mapping) and "data_version" in state else "another JSON value"


def check_bootstrap(storage: Storage, scope: Scope) -> Iterator[Finding]:
    """Check `bootstrap.checkpoint` of a log directory: the first records of the metadata log. It
    may be missing.
    """
    path = f"{scope.log_dir}/{BOOTSTRAP_CHECKPOINT}"
    try:
        if storage.exists(path):
            read_snapshot(storage, path)
    except FAILS_ONE_PARTITION as error:
        yield scope.finding(Kind.METADATA, BOOTSTRAP_CHECKPOINT, error)


def _set_aside(partitions: int) -> str:
    many = "the partition" if partitions == 1 else f"all {partitions:,} partitions"
    return (
        "Without the records of another controller, a broker starts empty and sets "
        f"{many} beside it aside"
    )
