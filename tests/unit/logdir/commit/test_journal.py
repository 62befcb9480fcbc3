from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.crc import crc32c_plain
from winnow.logdir.commit.journal import (
    JOURNAL,
    Journal,
    JournalGroup,
    Rest,
    StagedFile,
    leave_journal,
    read_journal,
    with_staged,
    write_journal,
)
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file
from winnow.state import Segment
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
BASES = ((0, 5), (9,))
REST = Rest(
    first_dirty_offset=5,
    legacy_delete_horizon_ms=-86_400_000,
    last_records=((7, 11, 3), (8, None, -1)),
    delete_horizons=False,
    converts=False,
    emptied_end=None,
)


def segment(base: int) -> Segment:
    return Segment(base, 100 + base, 1_700_000_000_000 + base, 8, 12, None if base else 34, -1, -1)


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    path = tmp_path / "t-0" / ".winnow-run"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def journal(staging: Path) -> Journal:
    groups = []
    for bases in BASES:
        suffixes = (LOG, INDEX, TIMEINDEX, TXNINDEX) if bases[0] else (LOG, INDEX, TIMEINDEX)
        paths = {suffix: staging / f"{segment_file(bases[0], suffix)}.0a1b" for suffix in suffixes}
        for size, path in enumerate(paths.values()):
            path.write_bytes(bytes(size))
        groups.append(
            StagedGroup(
                sources=tuple(map(segment, bases)),
                paths={suffix: str(path) for suffix, path in paths.items()},
            )
        )
    return with_staged(STORAGE, waiting_for([group.sources for group in groups]), groups)


def waiting_for(sources: Sequence[tuple[Segment, ...]]) -> Journal:
    """Return the journal of a round with nothing staged yet."""
    return Journal(
        run_id="run",
        now=7,
        end_offset=20,
        checkpoint_before=None,
        groups=tuple(
            JournalGroup(sources=group, open_producers=(3, 2**62), lingering=(), output=None)
            for group in sources
        ),
        rest=REST,
    )


def test_journal_reads_back_as_written(staging: Path, journal: Journal) -> None:
    write_journal(STORAGE, str(staging), journal)
    write_journal(STORAGE, str(staging), journal)
    assert read_journal(STORAGE, str(staging)) == journal
    assert journal.groups[1].output is not None
    assert journal.groups[1].output.files[TXNINDEX] == StagedFile(
        f"{segment_file(9, TXNINDEX)}.0a1b", 3, crc32c_plain(bytes(3))
    )
    assert [group.source_bases for group in journal.groups] == [*BASES]
    assert [path.name for path in staging.glob("*.json*")] == [JOURNAL]


def test_negative_checkpoint_before_is_read(staging: Path, journal: Journal) -> None:
    write_journal(STORAGE, str(staging), replace(journal, checkpoint_before=-1))
    assert read_journal(STORAGE, str(staging)) == replace(journal, checkpoint_before=-1)


def test_journal_of_an_earlier_version_has_no_checksums(staging: Path, journal: Journal) -> None:
    assert journal.has_checksums
    write_journal(STORAGE, str(staging), journal)
    value = json.loads((staging / JOURNAL).read_text())
    for group in value["groups"]:
        for file in group["output"]["files"].values():
            del file["crc32c"]
    (staging / JOURNAL).write_text(json.dumps(value))
    read = read_journal(STORAGE, str(staging))
    assert read is not None
    assert not read.has_checksums
    write_journal(STORAGE, str(staging), read)
    assert read_journal(STORAGE, str(staging)) == read


def test_journal_of_an_earlier_version_has_the_rules_of_kafka_4_3(
    staging: Path, journal: Journal
) -> None:
    waiting = waiting_for([group.sources for group in journal.groups])
    write_journal(STORAGE, str(staging), waiting)
    value = json.loads((staging / JOURNAL).read_text())
    for name in ("delete_horizons", "converts", "emptied_end"):
        del value["rest"][name]
    (staging / JOURNAL).write_text(json.dumps(value))
    assert read_journal(STORAGE, str(staging)) == replace(
        waiting, rest=replace(REST, delete_horizons=True, converts=True, emptied_end=20)
    )


def test_waiting_groups_read_back_as_written(staging: Path, journal: Journal) -> None:
    waiting = waiting_for([group.sources for group in journal.groups])
    first = replace(waiting, groups=(journal.groups[0], waiting.groups[1]))
    for one in (waiting, first):
        write_journal(STORAGE, str(staging), one)
        assert read_journal(STORAGE, str(staging)) == one
    assert [group.base_offset for group in first.waiting] == [9]
    assert (journal.rest, journal.waiting) == (None, ())


def test_unchanged_group_reads_back_as_written(staging: Path, journal: Journal) -> None:
    waiting = waiting_for([group.sources for group in journal.groups])
    staged = with_staged(STORAGE, waiting, [], unchanged=[9])
    assert [group.unchanged for group in staged.groups] == [False, True]
    assert ([group.base_offset for group in staged.waiting], staged.rest) == ([0], REST)
    whole = replace(staged, groups=(journal.groups[0], staged.groups[1]), rest=None)
    assert whole.waiting == ()
    assert whole.has_checksums
    write_journal(STORAGE, str(staging), whole)
    assert read_journal(STORAGE, str(staging)) == whole
    value = json.loads((staging / JOURNAL).read_text())
    assert ["unchanged" in group for group in value["groups"]] == [False, True], (
        "an earlier version reads a journal without unchanged groups"
    )
    for change in (
        lambda: value["groups"][1].update(unchanged=1),
        lambda: value["groups"][0].update(unchanged=True),
        lambda: value["groups"][0].update(unchanged=True, output=None),
    ):
        change()
        (staging / JOURNAL).write_text(json.dumps(value))
        assert read_journal(STORAGE, str(staging)) is None


def test_round_without_anything_to_replace_is_complete() -> None:
    waiting = waiting_for([(segment(5),), (segment(9),)])
    done = with_staged(STORAGE, waiting, [], unchanged=[5, 9])
    assert (done.rest, done.waiting) == (None, ())


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["groups"].reverse(),
        lambda value: value.update(rest=None),
        lambda value: value["rest"].pop("first_dirty_offset"),
        lambda value: value["rest"].update(last_records=[[1, 2]]),
        lambda value: value["rest"].update(last_records=[[-1, 2, 3]]),
        lambda value: value["rest"].update(delete_horizons=1),
        lambda value: value["rest"].update(emptied_end="20"),
        lambda value: value["rest"].update(emptied_end=-1),
        lambda value: value["groups"][1].update(open_producers=[-1]),
        lambda value: value["groups"][0].update(output=None),
    ],
)
def test_journal_with_a_malformed_rest_reads_as_none(
    staging: Path, journal: Journal, change: Callable[[dict[str, Any]], None]
) -> None:
    waiting = waiting_for([group.sources for group in journal.groups])
    write_journal(
        STORAGE, str(staging), replace(waiting, groups=(journal.groups[0], waiting.groups[1]))
    )
    value = json.loads((staging / JOURNAL).read_text())
    assert read_journal(STORAGE, str(staging)) is not None
    change(value)
    if value["groups"][0]["output"] is None:
        value["groups"][1]["output"] = asdict(journal)["groups"][1]["output"]
    (staging / JOURNAL).write_text(json.dumps(value))
    assert read_journal(STORAGE, str(staging)) is None


def test_leave_journal_removes_all_other_files(staging: Path, journal: Journal) -> None:
    write_journal(STORAGE, str(staging), journal)
    assert len(list(staging.iterdir())) > 1
    leave_journal(STORAGE, str(staging))
    assert [path.name for path in staging.iterdir()] == [JOURNAL]


def test_missing_journal_reads_as_none(staging: Path) -> None:
    assert read_journal(STORAGE, str(staging)) is None


def test_truncated_journal_reads_as_none(staging: Path, journal: Journal) -> None:
    write_journal(STORAGE, str(staging), journal)
    whole = (staging / JOURNAL).read_bytes()
    for size in range(len(whole)):
        (staging / JOURNAL).write_bytes(whole[:size])
        assert read_journal(STORAGE, str(staging)) is None


def _set(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("version", to=2),
        _set("extra", to=1),
        _set("groups", to=[]),
        _set("groups", 0, "sources", to=[]),
        _set("groups", 0, "sources", 0, "base_offset", to=-1),
        _set("groups", 0, "sources", 0, "base_offset", to=6),
        _set("groups", 0, "sources", 0, "log_bytes", to=None),
        _set("groups", 0, "sources", 0, "log_bytes", to=2**63),
        _set("groups", 0, "sources", 0, "log_bytes", to=1.5),
        _set("groups", 0, "sources", 0, "index_bytes", to=-1),
        _set("groups", 0, "sources", 0, "txnindex_bytes", to=-1),
        _set("groups", 0, "output", "files", ".log", "name", to="../../0.log"),
        _set("groups", 0, "output", "files", ".log", "name", to=f"{segment_file(0, LOG)}."),
        _set("groups", 0, "output", "files", ".log", "name", to=f"{segment_file(0, LOG)}.a/b"),
        _set("groups", 0, "output", "files", ".log", "name", to=f"{segment_file(5, LOG)}.a"),
        _set("groups", 0, "output", "files", ".snapshot", to={"name": "x", "size": 0}),
        _set("groups", 0, "output", "files", to={}),
        _set("groups", 0, "output", "files", ".log", "crc32c", to=2**32),
        _set("groups", 0, "output", "files", ".log", "crc32c", to=None),
        _set("groups", 0, "output", "log_mtime_ms", to=True),
        _set("end_offset", to=9),
        _set("checkpoint_before", to="-1"),
        _set("run_id", to=None),
    ],
)
def test_malformed_journal_reads_as_none(
    staging: Path, journal: Journal, change: Callable[[dict[str, Any]], None]
) -> None:
    write_journal(STORAGE, str(staging), journal)
    value = json.loads((staging / JOURNAL).read_bytes())
    change(value)
    (staging / JOURNAL).write_text(json.dumps(value))
    assert read_journal(STORAGE, str(staging)) is None


@given(st.binary(max_size=200) | st.text().map(str.encode) | st.just(b"[" * 100_000))
def test_random_bytes_read_as_none(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    staging = tmp_path_factory.mktemp("staging")
    (staging / JOURNAL).write_bytes(data)
    assert read_journal(STORAGE, str(staging)) is None
