"""A crash at any instant of a split: cases 71 and 73, S6.5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.by_hand import FAR, INTERVAL_BYTES, NOW, make_log
from tests.crash.logs import leftovers
from tests.crash.replay import RecordingStorage, crash_points
from tests.crash.runs import files_of, read_log
from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.split import StagedSplit, stage_split, swap_split
from winnow.logdir.indexes.txnindex import AbortedTransaction, decode_txn_index, encode_txn_index
from winnow.logdir.listing import list_segments
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
BASE = 100
CONFIG = {"index.interval.bytes": INTERVAL_BYTES}
FIRST_FITS = [(BASE, "a"), (BASE + 1, "b"), (BASE + 2, "c"), (BASE + FAR, "d")]
REST = [
    (BASE + FAR + 1, "e"),
    (BASE + FAR + 2, "f"),
    (BASE + FAR + 3, "a"),
    (BASE + 3 * FAR, "b"),
    (BASE + 3 * FAR + 5, "g"),
]
END = BASE + 3 * FAR + 12
AFTER = {END - 4: [(END - 4, "a"), (END - 3, "h")], END - 2: [(END - 2, "c"), (END - 1, "h")]}
BEFORE = {0: [(0, "a"), (1, "z")]}
LOGS = {
    "in the middle": (
        {**BEFORE, BASE: FIRST_FITS + REST, **AFTER},
        [BASE, BASE + FAR + 1, BASE + 3 * FAR],
    ),
    "the first one": ({BASE: FIRST_FITS + REST, **AFTER}, [BASE, BASE + FAR + 1, BASE + 3 * FAR]),
    # Kafka's first part begins where the first batch does, above the source's base.
    "nothing near its base": ({**BEFORE, BASE: REST, **AFTER}, [BASE + FAR + 1, BASE + 3 * FAR]),
    "the first one, nothing near its base": (
        {BASE: REST, **AFTER},
        [BASE + FAR + 1, BASE + 3 * FAR],
    ),
}


@pytest.fixture(params=LOGS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    """A log directory with an overflowed segment at BASE, and the bases of what it is split
    into.
    """
    segments, parts = LOGS[request.param]
    return make_log(tmp_path / "log", segments, end=END), parts


def stage(root: Path) -> StagedSplit:
    directory = f"{root}/t-0"
    source = next(s for s in list_segments(STORAGE, directory).segments if s.base_offset == BASE)
    STORAGE.mkdir(f"{directory}/.winnow-run")
    return stage_split(
        STORAGE,
        directory,
        source,
        f"{directory}/.winnow-run",
        index_interval_bytes=INTERVAL_BYTES,
        segment_index_bytes=10_485_760,
    )


def swap(root: Path) -> Callable[[RecordingStorage, Path], None]:
    """Stages the split, and returns what swaps it in, in a copy of the directory as well."""
    staged = stage(root)

    def act(storage: RecordingStorage, where: Path) -> None:
        parts = {
            base: {suffix: path.replace(str(root), str(where)) for suffix, path in paths.items()}
            for base, paths in staged.parts.items()
        }
        source = replace(staged.source, log_stamp=())  # in a copy the files are others
        swap_split(storage, f"{where}/t-0", replace(staged, source=source, parts=parts))

    return act


def test_kafka_splits_into_same_segments(
    case: tuple[Path, list[int]], kafka: Kafka, tmp_path: Path
) -> None:
    """Files, names, bytes and times are equal. Kafka's loader splits any segment that it cannot
    index during recovery.
    """
    root, parts = case
    theirs = tmp_path / "kafka"
    copy_tree(root, theirs)
    before = read_log(root / "t-0")
    mtime = (root / "t-0" / segment_file(BASE, LOG)).stat().st_mtime_ns
    swap_split(STORAGE, f"{root}/t-0", stage(root))
    assert kafka.load(theirs / "t-0", unclean=True, now=NOW, config=CONFIG).error is None
    assert [
        int(name[:20]) for name in files_of(root / "t-0", LOG) if BASE <= int(name[:20]) < END - 4
    ] == parts
    for suffix in (LOG, INDEX, TIMEINDEX):
        assert files_of(root / "t-0", suffix) == files_of(theirs / "t-0", suffix)
        for base in parts:
            name = segment_file(base, suffix)
            assert (root / "t-0" / name).stat().st_mtime_ns == mtime
            # Kafka's recovery goes on and builds the indexes of the parts once more.
            assert suffix != LOG or (theirs / "t-0" / name).stat().st_mtime_ns == mtime
    assert read_log(root / "t-0") == before
    listing = list_segments(STORAGE, f"{root}/t-0")
    assert listing.problems == ()
    assert listing.leftovers == (".winnow-run",)
    assert listing.snapshot_offsets[-1] == END


@pytest.mark.parametrize("out_of_order", [False, True])
def test_crash_leaves_the_old_segment_or_its_parts(
    case: tuple[Path, list[int]], kafka: Kafka, tmp_path: Path, *, out_of_order: bool
) -> None:
    root, parts = case
    before = read_log(root / "t-0")
    points = 0
    seen = set()
    for point in crash_points(root, tmp_path / "crash", swap(root), out_of_order=out_of_order):
        directory = point.root / "t-0"
        copies = {}
        if points % (24 if out_of_order else 2) == 0:
            copies = {unclean: tmp_path / f"kafka-{points}-{unclean}" for unclean in (False, True)}
            for copy in copies.values():
                copy_tree(point.root, copy)
        recover(STORAGE, str(directory))
        assert read_log(directory) == before, point.label
        assert leftovers(STORAGE, str(directory)) == (), point.label
        assert not point.in_order or list_segments(STORAGE, str(directory)).problems == (), (
            point.label
        )
        bases = [int(name[:20]) for name in files_of(directory, LOG)]
        inside = tuple(base for base in bases if BASE <= base < END - 4)
        assert inside in {(BASE,), tuple(parts), (BASE, *parts)}, point.label
        seen.add(inside)
        # An empty one, until it is taken away as well.
        assert inside != (BASE, *parts) or not (directory / segment_file(BASE, LOG)).stat().st_size
        assert not recover(STORAGE, str(directory)), point.label
        for unclean, copy in copies.items():
            loaded = kafka.load(copy / "t-0", unclean=unclean, now=NOW, config=CONFIG)
            assert loaded.error is None, point.label
            assert loaded.state["end_offset"] == before.end, point.label
            assert [line["o"] for line in loaded.records] == [
                one.offset for one in before.records
            ], point.label
            if not unclean:  # else Kafka splits what is not split yet
                assert files_of(copy / "t-0", LOG) == files_of(directory, LOG), point.label
        points += 1
    assert {(BASE,), tuple(parts)} <= seen
    assert points > (60 if out_of_order else 20), f"only {points} crash points were tried"


@pytest.mark.parametrize("case", ["in the middle", "nothing near its base"], indirect=True)
def test_crash_of_the_recovery_loses_nothing(case: tuple[Path, list[int]], tmp_path: Path) -> None:
    root, _ = case
    before = read_log(root / "t-0")

    def recover_in(storage: RecordingStorage, where: Path) -> None:
        recover(storage, f"{where}/t-0")

    points = 0
    for number, point in enumerate(crash_points(root, tmp_path / "crash", swap(root))):
        if number % 3 or not leftovers(STORAGE, f"{point.root}/t-0"):
            continue
        for second in crash_points(point.root, tmp_path / "again", recover_in, out_of_order=True):
            recover(STORAGE, f"{second.root}/t-0")
            assert read_log(second.root / "t-0") == before, f"{point.label}; {second.label}"
            points += 1
    assert points > 100


def test_split_keeps_the_index_of_an_aborted_transaction(tmp_path: Path) -> None:
    """Kafka drops the index and then treats the aborted records as committed."""
    segments, parts = LOGS["in the middle"]
    root = make_log(tmp_path / "log", segments, end=END)
    entries = [
        AbortedTransaction(7, BASE + 1, BASE + 2, BASE + 3),
        AbortedTransaction(7, BASE + FAR, BASE + 3 * FAR, END),
    ]
    (root / "t-0" / segment_file(BASE, TXNINDEX)).write_bytes(encode_txn_index(entries))
    swap_split(STORAGE, f"{root}/t-0", stage(root))
    found = {
        base: decode_txn_index(
            (root / "t-0" / segment_file(base, TXNINDEX)).read_bytes(), "f", base_offset=base
        )
        for base in parts
        if (root / "t-0" / segment_file(base, TXNINDEX)).exists()
    }
    assert found == {parts[0]: (entries[0],), parts[2]: (entries[1],)}
