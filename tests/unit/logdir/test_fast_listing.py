"""Compare the fast listing of a directory with the listing file by file."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.crash import logs
from tests.twins.no_numba import without_numba
from winnow.logdir.fast_listing import list_sound
from winnow.logdir.indexes.index import written_entries
from winnow.logdir.listing import SegmentListing, list_segments
from winnow.storage.io_counters import MOVED
from winnow.storage.local import LocalStorage

SEGMENTS = {
    0: [logs.record(o, o) for o in range(3)],
    3: [logs.record(o, o) for o in range(3, 6)],
    6: [],
}
STEM = "0" * 19 + "3"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return logs.make_log(tmp_path / "log", SEGMENTS, end=6, checkpoints={}) / "t-0"


def both(directory: Path) -> tuple[SegmentListing | None, SegmentListing]:
    """Check that both listings agree, and that only the slow one describes what is wrong."""
    before = MOVED["read"], MOVED["files"]
    sound = list_sound(str(directory))
    between = MOVED["read"], MOVED["files"]
    listing = list_segments(LocalStorage(), str(directory))
    after = MOVED["read"], MOVED["files"]
    with without_numba():
        plain = list_sound(str(directory))
    assert plain is None or plain == listing
    if sound is not None:
        assert plain == sound
        assert sound == listing
        assert [s.log_stamp for s in sound.segments] == [s.log_stamp for s in listing.segments]
        assert [b - a for a, b in zip(before, between, strict=True)] == [
            b - a for a, b in zip(between, after, strict=True)
        ]
    return sound, listing


def test_all_partitions_of_a_broker_are_listed_fast(log_dir: Path) -> None:
    partitions = [path for path in log_dir.iterdir() if path.is_dir()]
    assert len(partitions) > 5
    for path in partitions:
        sound, listing = both(path)
        assert sound is not None or path.name.startswith("__cluster_metadata"), path
        assert listing.problems == ()


def test_ordinary_partition_is_listed_fast(directory: Path) -> None:
    sound, _ = both(directory)
    assert sound is not None
    assert [s.base_offset for s in sound.segments] == [0, 3, 6]


def _without_index(directory: Path) -> None:
    (directory / f"{STEM}.index").unlink()


def _orphan(directory: Path) -> None:
    (directory / f"{STEM}.log").unlink()


def _orphan_of_transactions(directory: Path) -> None:
    (directory / f"{5:020d}.txnindex").touch()


def _link(directory: Path) -> None:
    (directory / f"{STEM}.log").rename(directory.parent / "elsewhere")
    (directory / f"{STEM}.log").symlink_to(directory.parent / "elsewhere")


def _pipe(directory: Path) -> None:
    os.mkfifo(directory / f"{9:020d}.snapshot")


def _left_over(directory: Path) -> None:
    (directory / f"{STEM}.log").rename(directory / f"{STEM}.log.deleted")


def _staging(directory: Path) -> None:
    (directory / ".winnow-run").mkdir()


def _short_name(directory: Path) -> None:
    (directory / "7.log").touch()


def _long_name(directory: Path) -> None:
    (directory / f"{STEM}.x.log").touch()


def _beyond_a_long(directory: Path) -> None:
    for suffix in ("log", "index", "timeindex"):
        (directory / f"{2**63:020d}.{suffix}").touch()


def _other_digits(directory: Path) -> None:
    for suffix in ("log", "index", "timeindex"):
        (directory / f"{'0' * 19}\N{ARABIC-INDIC DIGIT SEVEN}.{suffix}").touch()


def _snapshot(directory: Path) -> None:
    (directory / "12.snapshot").touch()


def _unknown(directory: Path) -> None:
    (directory / "notes.txt").touch()


def _epochs(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").write_text("7\n")


def _no_segment(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "change",
    [
        _without_index,
        _orphan,
        _orphan_of_transactions,
        _link,
        _pipe,
        _left_over,
        _staging,
        _short_name,
        _long_name,
        _beyond_a_long,
        _other_digits,
        _snapshot,
        _unknown,
        _epochs,
        _no_segment,
    ],
)
def test_unusual_partition_is_left_to_the_slow_listing(
    directory: Path, change: Callable[[Path], None]
) -> None:
    change(directory)
    assert list_sound(str(directory)) is None


def test_missing_or_remote_directory_is_not_listed_fast(tmp_path: Path) -> None:
    assert list_sound(str(tmp_path / "missing")) is None
    assert list_sound("s3://bucket/t-0") is None


def test_large_indexes_are_left_to_the_slow_listing(directory: Path) -> None:
    entries = b"".join(struct.pack(">ii", n, n) for n in range(1, 2**19 + 1))
    (directory / f"{6:020d}.index").write_bytes(entries)
    with (directory / f"{6:020d}.log").open("ab") as log:
        log.truncate(2**20)
    sound, listing = both(directory)
    assert sound is None
    assert listing.problems == ()


_NUMBERS = st.one_of(st.integers(-2, 9), st.sampled_from([2**31 - 1, -(2**31)]))


@given(
    entries=st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=4),
    times=st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=4),
    tail=st.binary(max_size=9),
    base=st.sampled_from([0, 3, 6]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
def test_both_listings_agree_on_any_index_content(
    directory: Path,
    entries: list[tuple[int, int]],
    times: list[tuple[int, int]],
    tail: bytes,
    base: int,
) -> None:
    files = {suffix: directory / f"{base:020d}.{suffix}" for suffix in ("index", "timeindex")}
    before = {suffix: path.read_bytes() for suffix, path in files.items()}
    files["index"].write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + tail[:1])
    files["timeindex"].write_bytes(
        b"".join(struct.pack(">qi", *entry) for entry in times) + tail[1:]
    )
    never_cut = any(
        written_entries(data := path.read_bytes(), 8 if suffix == "index" else 12) != data
        for suffix, path in files.items()
    )
    sound, listing = both(directory)
    assert (sound is None) == (never_cut or bool(listing.problems))
    for suffix, path in files.items():
        path.write_bytes(before[suffix])


@given(st.binary(max_size=70))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_listings_agree_on_any_log_head(directory: Path, head: bytes) -> None:
    (directory / f"{6:020d}.log").write_bytes(head)
    assert both(directory)[0] is not None
