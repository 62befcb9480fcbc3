"""The JSON files that Winnow writes for itself, and a `.swap` log beside the segments that it would
replace.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import cache

from fuzz.scratch import directory, storage, written
from fuzz.targets.base import Target, require
from tests.twins.encoding import encode_batch
from winnow.errors import CorruptLogError
from winnow.logdir.commit.journal import (
    JOURNAL,
    Journal,
    JournalGroup,
    Rest,
    StagedFile,
    StagedOutput,
    read_journal,
    write_journal,
)
from winnow.logdir.commit.kept import RUN_JSON, STEP_JSON, read_kept
from winnow.logdir.commit.quarantine import MANIFEST, settle_quarantine
from winnow.logdir.commit.recovery import recover
from winnow.logdir.names import INDEX, LOG, SWAP, TIMEINDEX, segment_file
from winnow.logdir.stored import plain
from winnow.state import Segment
from winnow.storage.s3.record import ChangeRecord, Content, Copied, decode, encode
from winnow.wire.plain import Record

_BASES = (0, 3, 6, 9)
_KEPT = (1, 4, 5)


def _journal(data: bytes) -> None:
    staging = _empty("journal/.winnow-run")
    written(f"journal/.winnow-run/{JOURNAL}", data)
    journal = read_journal(storage, staging)
    if journal is None:
        raise CorruptLogError("a journal that no run wrote")
    write_journal(storage, staging, journal)
    require(
        read_journal(storage, staging) == journal, "a journal does not come back as it was written"
    )


def _journals() -> list[bytes]:
    segment = Segment(0, 100, 1_700_000_000_000, 8, 12, None, -1, -1)
    files = {s: StagedFile(f"{segment_file(0, s)}.a1", 5, 7) for s in (LOG, INDEX, TIMEINDEX)}
    waiting = JournalGroup(sources=(segment,), open_producers=(4,), lingering=(), output=None)
    done = replace(waiting, output=StagedOutput(files=files, log_mtime_ms=3))
    rest = Rest(
        first_dirty_offset=0,
        legacy_delete_horizon_ms=-1,
        last_records=((7, None, -1), (8, 3, 0)),
        delete_horizons=True,
        converts=True,
        emptied_end=9,
    )
    whole = Journal(
        run_id="run", now=1, end_offset=9, checkpoint_before=None, groups=(done,), rest=None
    )
    begun = replace(whole, checkpoint_before=3, groups=(waiting,), rest=rest)
    return [json.dumps({"version": 1, **plain(one)}).encode() for one in (whole, begun)]


_RUN = {
    "version": 1,
    "run_id": "run",
    "kept_at_ms": 1,
    "log_start_offset": 0,
    "log_start_checkpoint": None,
    "cleaner_checkpoint": 3,
    "leader_epochs": [[0, 0], [1, 4]],
}
_STEP = {
    "version": 1,
    "kind": "deleted",
    "files": [{"name": segment_file(0, LOG), "size": 0, "mtime_ns": 1}],
    "outputs": [],
    "next_base": 3,
}


def _kept(run: bytes, step: bytes) -> None:
    path = _empty("kept/.winnow-kept-run/000001")
    os.utime(written(f"kept/.winnow-kept-run/000001/{segment_file(0, LOG)}", b""), ns=(1, 1))
    written(f"kept/.winnow-kept-run/{RUN_JSON}", run)
    written(f"kept/.winnow-kept-run/000001/{STEP_JSON}", step)
    kept = read_kept(storage, path.rpartition("/.winnow")[0], "run")
    described = len(run) + len(step)
    require((kept.bytes, kept.segments) == (described, 1), "one empty segment is kept")


def _quarantine(data: bytes) -> None:
    """Never raises: files that can't be parsed are kept."""
    _empty("quarantine/.winnow-run-quarantine")
    path = _empty("quarantine/.winnow-quarantine-run")
    written(f"quarantine/.winnow-quarantine-run/{MANIFEST}", data)
    settle_quarantine(storage, path.rpartition("/")[0], run_id="run")


def _commit_record(data: bytes) -> None:
    record = decode(data, "", "here")
    require(
        decode(encode(record), "", "here") == record,
        "a record does not come back as it was written",
    )
    record.in_order()


def _swap(data: bytes) -> None:
    """The output of a cleaning of the first two of four segments: whatever it holds, the others
    stay.
    """
    path = _empty("swap")
    for base, log in _logs().items():
        for suffix, content in ((LOG, log), (INDEX, b""), (TIMEINDEX, b"")):
            written(f"swap/{segment_file(base, suffix)}", content)
    written(f"swap/{segment_file(0, LOG)}{SWAP}", data)
    for suffix in (INDEX, TIMEINDEX):  # those of a cleaning; without them, nothing may go
        written(f"swap/{segment_file(0, suffix)}{SWAP}", b"")
    recover(storage, path)
    for base in _BASES[2:]:
        require(
            storage.read_bytes(f"{path}/{segment_file(base, LOG)}") == _logs()[base],
            "a segment was no source",
        )


@cache
def _logs() -> dict[int, bytes]:
    return {base: b"".join(_batch(base + at) for at in range(3)) for base in _BASES}


def _batch(offset: int) -> bytes:
    return encode_batch([Record(offset, 1_000_000 + offset, b"k", b"%d" % offset)])


def _empty(name: str) -> str:
    path = f"{directory()}/{name}"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


TARGETS = {
    "journal": Target(check=_journal, seeds=_journals),
    "kept-run": Target(
        check=lambda data: _kept(data, json.dumps(_STEP).encode()),
        seeds=lambda: [json.dumps(_RUN).encode()],
    ),
    "kept-step": Target(
        check=lambda data: _kept(json.dumps(_RUN).encode(), data),
        seeds=lambda: [json.dumps(_STEP).encode()],
    ),
    "quarantine-manifest": Target(
        check=_quarantine,
        seeds=lambda: [
            json.dumps({"version": 1, "segments": [{"base_offset": 0, "log_bytes": 1}]}).encode()
        ],
    ),
    "commit-record": Target(
        check=_commit_record,
        seeds=lambda: [
            encode(
                ChangeRecord(
                    "",
                    "1",
                    "decided",
                    {"a": Copied("b", 1, "e", 2)},
                    {"c": Content(b"d", 3)},
                    ("b",),
                )
            )
        ],
    ),
    "swap-log": Target(check=_swap, seeds=lambda: [b"".join(map(_batch, _KEPT)), b""], weight=1),
}
