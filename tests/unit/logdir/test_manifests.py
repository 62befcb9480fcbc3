"""Replace each value of every JSON file that Winnow keeps in a partition directory with each bad
value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash import logs
from tests.unit.logdir.commit.test_journal import BASES, segment, waiting_for
from winnow.errors import CorruptLogError
from winnow.logdir.commit.journal import read_journal, write_journal
from winnow.logdir.commit.keeping import begin_keeping, keep, settle_kept
from winnow.logdir.commit.kept import read_kept
from winnow.logdir.commit.quarantine import (
    quarantine_path,
    set_aside,
    settle_quarantine,
    staging_path,
)
from winnow.logdir.damage import Damage
from winnow.logdir.names import LOG, segment_file
from winnow.storage.local import LocalStorage
from winnow.storage.s3.record import ChangeRecord, Content, Copied, decode, encode

STORAGE = LocalStorage()
BAD = {
    "text": '"a"',
    "infinity": "Infinity",
    "not a number": "NaN",
    "a float": "1e20",
    "a fraction": "1.5",
    "too large": "9" * 30,
    "very large": "9" * 5000,
    "negative": "-1",
    "a boolean": "true",
    "nothing": "null",
    "a list": "[]",
    "an object": "{}",
    "a nest": "[" * 100 + "]" * 100,
    "a deep nest": "[" * 5000 + "]" * 5000,
    "half a character": '"\\ud800"',
    "another directory": '"../../00000000000000000000.log"',
}
_MARK = '"<here>"'


def variants(sound: bytes) -> Iterator[bytes]:
    """Yield the file with one value replaced, one field missing, or one field too many."""

    def places(value: Any) -> Iterator[tuple[Any, Any]]:
        inner = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        for key, child in list(inner):
            yield value, key
            yield from places(child)

    whole = json.loads(sound)
    for container, key in list(places(whole)):
        usual = container[key]
        container[key] = json.loads(_MARK)
        template = json.dumps(whole)
        yield from (template.replace(_MARK, bad).encode() for bad in BAD.values())
        del container[key]
        yield json.dumps(whole).encode()
        if isinstance(container, dict):
            container[key] = usual
        else:
            container.insert(key, usual)
    yield from (bad.encode() for bad in BAD.values())
    yield from (sound[:size] for size in range(0, len(sound), 7))
    yield b'{"version": 1, "version": 1}'


def check(path: Path, read: Callable[[], object]) -> None:
    """Check that each variant is read, or refused by an error of one partition with a place and a
    remedy.
    """
    sound = path.read_bytes()
    refused: list[tuple[bytes, CorruptLogError]] = []
    read()
    for data in variants(sound):
        path.write_bytes(data)
        try:
            read()
        except CorruptLogError as error:
            refused.append((data, error))
    path.write_bytes(sound)
    read()
    assert len(refused) > len(BAD)
    incomplete = [
        data
        for data, error in refused
        if None in {error.where, error.expected, error.found, error.hint}
    ]
    assert incomplete == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    segments = {base: [logs.record(base, base)] for base in (0, 3, 6)}
    return logs.make_log(tmp_path / "log", segments, end=9, checkpoints={})


def test_bad_manifests_of_kept_files_are_refused(root: Path) -> None:
    state = logs.state_of(root)
    begin_keeping(STORAGE, state, run_id="run", now=1)
    keep(
        STORAGE,
        state.directory,
        [segment_file(0, LOG)],
        outputs={0: f"{root}/t-0/{segment_file(3, LOG)}"},
    )
    keep(STORAGE, state.directory, [segment_file(0, LOG)], next_base=3)
    kept = root / "t-0" / ".winnow-kept-run"
    for manifest in (
        kept / "run.json",
        kept / "000001" / "step.json",
        kept / "000002" / "step.json",
    ):
        check(manifest, lambda: read_kept(STORAGE, state.directory, "run"))


def test_bad_manifests_of_kept_files_do_not_stop_recovery(root: Path) -> None:
    state = logs.state_of(root)
    begin_keeping(STORAGE, state, run_id="run", now=1)
    keep(STORAGE, state.directory, [segment_file(0, LOG)], next_base=3)
    path = root / "t-0" / ".winnow-kept-run" / "run.json"
    sound = path.read_bytes()
    for data in variants(sound):
        path.write_bytes(data)
        try:
            read_kept(STORAGE, state.directory, "run")
        except CorruptLogError:
            settle_kept(STORAGE, state.directory, run_id="run")
            assert path.read_bytes() == data, "what is not understood stays as it is"


def test_bad_manifests_of_a_quarantine_do_not_stop_recovery(root: Path) -> None:
    state = logs.state_of(root)
    staging = Path(staging_path(state.directory, "run"))
    staging.mkdir()
    set_aside(STORAGE, state, [(state.segments[0], [Damage(1, 3, 0, 1)])], run_id="run", now=7)
    path = Path(quarantine_path(state.directory, "run")) / "manifest.json"
    fields = json.loads(path.read_bytes())
    fields["segments"][0]["log_bytes"] += (
        1  # bytes are missing from the log: the quarantine is kept
    )
    sound = json.dumps(fields).encode()
    for data in variants(sound):
        path.write_bytes(data)
        settle_quarantine(STORAGE, state.directory, run_id="run")
        if not path.exists():  # another segment, or none, is unchanged
            assert json.loads(data)["segments"] != fields["segments"]
            (gone,) = staging.iterdir()
            gone.rename(path.parent)


def test_bad_journal_reads_as_none(root: Path) -> None:
    staging = root / "t-0" / ".winnow-run"
    staging.mkdir()
    write_journal(
        STORAGE, str(staging), waiting_for([tuple(map(segment, bases)) for bases in BASES])
    )
    path = staging / "round.json"
    for data in variants(path.read_bytes()):
        path.write_bytes(data)
        read_journal(STORAGE, str(staging))
    for bad in BAD.values():
        path.write_bytes(bad.encode())
        assert read_journal(STORAGE, str(staging)) is None


def test_bad_commit_records_are_refused(tmp_path: Path) -> None:
    record = ChangeRecord(
        directory="t-0",
        id="1",
        state="decided",
        copies={"t-0/a": Copied(source="t-0/b", size=1, etag="e", mtime_ns=2)},
        contents={"t-0/c": Content(data=b"d", mtime_ns=3)},
        deletes=("t-0/e",),
    )
    path = tmp_path / "record"
    path.write_bytes(encode(record))
    check(path, lambda: decode(path.read_bytes(), "t-0", str(path)))
