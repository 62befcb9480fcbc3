"""The certificate of an erasure: what was erased, where, when, how it was proven, and what it can't
show. JSON for checks, and the same as a page for people.

Who has only the certificate can check that it is whole, and compare the rewritten files with it.
Who also has the hash key and a key can check that this key was erased. `docs/erase.md` does
it without Winnow.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from winnow.errors import CorruptLogError, UsageError, WinnowError
from winnow.logdir.survey import LogDir
from winnow.report.write import page
from winnow.resources import user_state_dir
from winnow.storage.output_file import OutputFile, read_output, refuse_in_log_dir
from winnow.storage.own_json import JsonValue, parse_json
from winnow.storage.private import ensure_private
from winnow.verbs.erase.key_hashes import (
    HASH_DIGITS,
    ErasedKeys,
    KeyHashes,
    erased_keys,
    hash_keys,
    read_hash_key,
)
from winnow.verbs.erase.replicas import Replicas
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure, PatternSearch
from winnow.version import VERSION
from winnow.words import counted, escaped, instant, moment, redacted

FORMAT = "winnow-erasure-certificate-1"
HASH = "BLAKE2b-128, keyed"
KEY_SUFFIX = ".hash-key"
_VALUES = "Values and headers: only keys are compared. Those of other records may name a person."
_SEARCHED_VALUES = (
    "Values and headers, but for the patterns that were searched for, byte by byte: upper and "
    "lower case, other encodings, and values that an application compressed or encrypted are "
    "other bytes."
)
NOT_SHOWN = (
    "Other replicas: each broker has its own files and needs its own erasure and certificate.",
    (
        "Replicas made later: a new, moved or replaced replica that is copied from a broker that "
        "was not erased yet brings the records back, also to this broker. After the last erasure, "
        "search every current replica with `verify --key-hash`."
    ),
    "Internal topics that were not named: __consumer_offsets has the names of groups.",
    "Segments in remote storage (tiered topics).",
    "Copies elsewhere: consumers, connectors, mirrors, state stores, backups, snapshots of disks.",
    _VALUES,
    "Freed blocks of the disk: the old files were unlinked, not overwritten.",
    "That clock, user and host are right.",
    "That nobody has written another certificate: it is not signed. Keep its SHA-256 elsewhere.",
)
"""What no certificate can show."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_OPTION = "--certificate"
_ROOM = 256 << 10
"""Bytes that must be free where a certificate is to be written, before anything is erased."""
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When and where an erasure ran, and by whom. Times are in ms since the epoch."""

    user: str
    host: str
    started: int
    ended: int
    log_dirs: Sequence[LogDir]
    patterns: Sequence[bytes] = ()
    """What was searched for in keys, values and headers."""


def check_place(directory: str, log_dirs: Sequence[str]) -> None:
    """Make the directory for certificates. Raises UsageError if it can't be written to, or is in a
    log directory, and NoSpaceError if there is no room for a certificate.
    """
    if not directory:  # which would be the current directory
        raise UsageError(f"{_OPTION} has no name", expected="a directory")
    file = _file(f"{directory}/erasure.json")
    refuse_in_log_dir(file.path, log_dirs)
    try:
        ensure_private(directory)
    except OSError as error:
        raise UsageError(
            f"{_OPTION} can't be written",
            expected="a directory that you may write to",
            found=error.strerror,
            where=directory,
            hint=f"Nothing was erased. Name another directory with {_OPTION}.",
        ) from error
    file.check(log_dirs, room=_ROOM)


def certified(
    directory: str, result: EraseResult, hashes: KeyHashes, at: Circumstances
) -> EraseResult:
    """Write the certificate and return the result, which says where it is.

    The erasure is done. So if the certificate can't be written there, it is written to the user's
    own directory of certificates, and a note says so; if that fails too, the note says how to get
    one.
    """
    try:
        return write_certificate(directory, result, hashes, at)
    except Exception as error:  # noqa: BLE001 - whatever happens, the erasure is done
        done = f"THE CERTIFICATE IS NOT IN {directory}; the erasure was done: {error}"
    try:
        place = user_state_dir("certificates")
        refuse_in_log_dir(str(place / "erasure.json"), [d.path for d in at.log_dirs])
        ensure_private(str(place))
        result = write_certificate(str(place), result, hashes, at)
    except Exception as error:  # noqa: BLE001 - as above
        note = (
            f"{done} Nor could it be written to the user's state directory: {error} Make room "
            f"there, or set XDG_STATE_HOME, and erase the same keys again with {_OPTION}: that "
            "certificate proves that none of them is left"
        )
    else:
        names = " ".join(f"erasure-{result.run_id}{end}" for end in (".json", ".html", KEY_SUFFIX))
        note = f"{done} It is in {place} instead: move {names} from there"
    return replace(result, notes=(*result.notes, redacted(note)))


def write_certificate(
    directory: str, result: EraseResult, hashes: KeyHashes, at: Circumstances
) -> EraseResult:
    """Write `erasure-RUN_ID` with the endings `.json`, `.html` and `.hash-key`, all of them or
    none. Return the result with the path of the first one, and the SHA-256 in it.

    Raises WinnowError.
    """
    content = content_of(result, hashes, at)
    stem = Path(directory).resolve() / f"erasure-{result.run_id}"
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    html = page("certificate.html", certificate=content, keys=content["keys"], name=stem.name)
    written: list[OutputFile] = []
    try:
        for suffix, data in (
            (KEY_SUFFIX, f"{hashes.hash_key}\n"),
            (".html", redacted(html)),
            (".json", text),
        ):
            file = _file(f"{stem}{suffix}")
            file.write(data.encode())
            written.append(file)
    except BaseException:
        for file in written:
            with suppress(WinnowError):
                file.remove()
        raise
    return replace(result, certificate=f"{stem}.json", certificate_sha256=content["sha256"])


def _file(path: str) -> OutputFile:
    return OutputFile(path, _OPTION, "the certificate")


def content_of(result: EraseResult, hashes: KeyHashes, at: Circumstances) -> dict[str, Any]:
    """Return the certificate as JSON. Others check it: keep its fields, or change FORMAT."""
    content = {
        "format": FORMAT,
        "run_id": result.run_id,
        "winnow_version": VERSION,
        "started_at": moment(at.started),
        "ended_at": moment(at.ended),
        "user": at.user,
        "host": at.host,
        "log_dirs": [
            {"path": d.path, "cluster_id": d.meta.cluster_id, "node_id": d.meta.node_id}
            for d in at.log_dirs
            if not d.in_doubt
        ],
        "status": result.status,
        "exit_code": result.exit_code,
        "proven": result.proven,
        "why_not_proven": result.why_not_proven,
        "keys": {
            "given": result.keys,
            "found": result.keys_found,
            "hash": HASH,
            "hashes": None if hashes.each is None else [*hashes.each],
            "all": hashes.together,
        },
        "records_erased": sum((p.erased or Amount()).records for p in result.partitions),
        "partitions": [_partition(p) for p in result.partitions],
        "replicas": _replicas(result.replicas),
        "patterns": _patterns(result.patterns, hash_keys(at.patterns, hashes.secret)),
        "left": [
            *_left(result.partitions),
            *_left_by_search(result),
            *(f"not searched: {directory}" for directory in result.not_searched),
        ],
        "not_shown": [
            _SEARCHED_VALUES if words is _VALUES and result.patterns else words
            for words in NOT_SHOWN
        ],
    }
    text = redacted(json.dumps(content, ensure_ascii=False))
    # Names of files may be no UTF-8, and a certificate is.
    clean = json.loads(_SURROGATE.sub(lambda one: "\\" + escaped(one[0]), text))
    return {**clean, "sha256": hashlib.sha256(canonical(clean)).hexdigest()}


def canonical(content: Mapping[str, Any]) -> bytes:
    """Return the bytes that `sha256` is of: JSON in UTF-8 with sorted keys and no white space."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _partition(p: PartitionErasure) -> dict[str, Any]:
    return {
        "topic": p.topic,
        "partition": p.partition,
        "log_dir": p.log_dir,
        "searched": p.searched,
        "records_erased": (p.erased or Amount()).records,
        "segments": p.segments,
        "bytes_before": p.bytes_before,
        "bytes_after": p.bytes_after,
        "rewritten": [
            {"file": file.file, "bytes": file.bytes, "sha256": file.sha256} for file in p.rewritten
        ],
        "proof": None
        if p.proof is None
        else {
            "records_read": p.proof.records,
            "with_a_key": p.proof.reached,
            "unreadable": p.proof.problems,
        },
        "left_active": (p.active or Amount()).records,
        "left_above_high_watermark": (p.above_high_watermark or Amount()).records,
        "older_copies": [*p.copies],
        "remote_storage": p.remote,
        "error": p.error or p.why_left_alone,
    }


def _replicas(replicas: Replicas) -> dict[str, Any]:
    """Return which other brokers have replicas of these topics."""
    return {
        "metadata_log": replicas.metadata_log,
        "written_at": None if replicas.written_at < 0 else instant(replicas.written_at),
        "other_brokers": [*replicas.other_brokers],
        "reassigned": [partition.name for partition in replicas.reassigned],
        "unknown": replicas.problem,
        "partitions": {
            partition.name: [replica.node_id for replica in partition.replicas]
            for partition in replicas.partitions
        },
    }


def _patterns(search: PatternSearch | None, hashes: KeyHashes) -> dict[str, Any] | None:
    if search is None:
        return None
    return {
        "given": search.patterns,
        "hash": HASH,
        "hashes": [*(hashes.each or ())],
        **asdict(search.total),
        "partitions": [
            {"partition": partition.name, **asdict(matches)}
            for partition in search.partitions
            if (matches := partition.matches) is not None and matches.records
        ],
    }


def _left_by_search(result: EraseResult) -> Iterator[str]:
    """Yield what was not searched for patterns, and the replicas that were not given."""
    searched = {(p.topic, p.partition, p.log_dir) for p in result.partitions}
    for p in result.patterns.unsearched if result.patterns else ():
        if (p.topic, p.partition, p.log_dir) not in searched:
            yield f"{p.name}: not searched for patterns: {p.error}"
    for missing in result.replicas.missing:
        yield f"{missing.name}: this broker has a replica that is in none of these log directories"


def _left(partitions: Sequence[PartitionErasure]) -> Iterator[str]:
    """Yield what was found and not reached, in sentences."""
    for p in partitions:
        name = f"{p.topic}-{p.partition}"
        if p.error is not None or p.why_left_alone is not None:
            yield f"{name}: {p.error or p.why_left_alone}"
        for left, where in (
            (p.active, "in the active segment"),
            (p.above_high_watermark, "at or above the high watermark"),
        ):
            if left is not None and left.records:
                yield f"{name}: {counted(left.records, 'record')} {where}"
        for copy in p.copies:
            yield f"{name}: older copies of records, not searched: {copy}"
        if p.remote:
            yield f"{name}: its remote storage was not searched"


def read_certificate(file: str, hash_key: str | None) -> ErasedKeys:
    """Return the erased keys as hashes. `hash_key`: the file with the hash key. None: the one
    beside the certificate.

    Raises UsageError if either can't be read, or if they do not belong together. The certificate
    may come from anybody.
    """
    try:
        content = _certificate(file)
        keys = content["keys"].fields(("hashes", "all"), None)
        hashes = None
        if keys["hashes"].raw is not None:
            each = keys["hashes"].items()
            hashes = [one.text(shortest=HASH_DIGITS, longest=HASH_DIGITS) for one in each]
        partitions = content["partitions"].items()
        topics = {one.fields(("topic",), None)["topic"].text() for one in partitions}
        together, run_id = keys["all"].text(), content["run_id"].text()
    except (OSError, CorruptLogError) as error:
        raise UsageError(
            "this is not a certificate of an erasure",
            expected=f"the JSON file that `erase --certificate` wrote, {FORMAT}",
            found=error.found if isinstance(error, CorruptLogError) else str(error.strerror),
            where=file,
        ) from None
    beside = Path(file).with_suffix(KEY_SUFFIX)
    if hash_key is None and not beside.is_file():
        raise UsageError(
            "a certificate needs the hash key of its erasure",
            expected=f"--hash-key FILE, or a file {beside.name} beside it",
            found="neither",
            where=file,
        )
    secret = read_hash_key(str(beside) if hash_key is None else hash_key)
    return erased_keys(hashes, together, secret, topics=topics, run_id=run_id)


def _certificate(file: str) -> Mapping[str, JsonValue]:
    """Return the fields of a whole certificate. Raises CorruptLogError, OSError, and UsageError for
    a changed one.
    """
    data = read_output(Path(file).resolve(), most=_MOST_BYTES + 1)
    whole = parse_json(data, file, most_bytes=_MOST_BYTES)
    content = whole.fields(("format", "sha256", "keys", "partitions", "run_id"), None)
    content["format"].one_of(FORMAT)
    stated = content["sha256"].text()
    found = hashlib.sha256(
        canonical({name: value.raw for name, value in content.items() if name != "sha256"})
    ).hexdigest()
    if found != stated:
        raise UsageError(
            "the certificate does not match its SHA-256: it was changed",
            expected=stated,
            found=found,
            where=file,
        )
    return content
