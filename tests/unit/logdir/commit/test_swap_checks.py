"""What recovery checks of a `.swap` log before it removes a source (S6.3). Damage is kept, with all
sources.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import logs
from tests.crash.logs import leftovers
from winnow import api
from winnow.errors import CorruptLogError
from winnow.logdir.commit.recovery import preview, recover
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
BASES = tuple(range(0, 45, 3))
"""15 segments of three records each; the last one is active."""
SEGMENTS = {base: [logs.record(o, o % 5) for o in range(base, base + 3)] for base in BASES}
KEPT = (1, 4, 5)
"""What cleaning leaves of the segments 0 and 3."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return logs.make_log(tmp_path / "log", SEGMENTS, end=45, checkpoints={})


def put_swap(root: Path, base: int, offsets: tuple[int, ...], *, suffix: str = ".swap") -> Path:
    """Write the output of a cleaning next to its sources. Return its log."""
    records = [one for segment in SEGMENTS.values() for one in segment if one.offset in offsets]
    for name, data in logs.segment_bytes(base, records).items():
        (root / "t-0" / f"{base:020d}{name}{suffix}").write_bytes(data)
    return root / "t-0" / f"{base:020d}.log{suffix}"


def positions(log: bytes) -> list[int]:
    """Return the start of each of its batches."""
    found, at = [], 0
    while at < len(log):
        found.append(at)
        at += 12 + int.from_bytes(log[at + 8 : at + 12], "big")
    return found


def content(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "t-0").iterdir())}


def refused(root: Path, *, match: str = r"\.swap") -> None:
    """Check that nothing changes, and that the error says where and what to do."""
    before = content(root)
    with pytest.raises(CorruptLogError, match=match) as caught:
        recover(STORAGE, f"{root}/t-0")
    assert caught.value.where
    assert caught.value.hint
    with pytest.raises(CorruptLogError, match=match):
        preview(STORAGE, f"{root}/t-0")
    assert content(root) == before


def flips(log: Path, start: int, end: int, *, every: int = 1) -> Iterator[str]:
    """Flip bits of some bytes, one at a time."""
    sound = log.read_bytes()
    for bit in range(8 * start, 8 * end, every):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 0x80 >> bit % 8
        log.write_bytes(damaged)
        yield f"bit {bit % 8} of byte {bit // 8}"
    log.write_bytes(sound)


@pytest.mark.parametrize("batch", range(len(KEPT)))
def test_flipped_bit_in_a_base_offset_is_refused(root: Path, batch: int) -> None:
    log = put_swap(root, 0, KEPT)
    at = positions(log.read_bytes())[batch]
    for _ in flips(log, at, at + 8):
        refused(root)
    recover(STORAGE, f"{root}/t-0")
    assert {one.offset for one in logs.read_log(root).records} == {*KEPT, *range(6, 45)}


def test_flipped_bit_anywhere_in_a_swap_log_is_refused(root: Path) -> None:
    """Except in the leader epoch: no CRC covers it, and nothing else contradicts it."""
    log = put_swap(root, 0, KEPT)
    for at in positions(log.read_bytes()):
        for start, end in ((8, 12), (16, 62)):
            for _ in flips(log, at + start, at + end, every=7):
                refused(root)


def test_flipped_bit_is_refused_if_sources_are_marked_deleted(root: Path) -> None:
    log = put_swap(root, 0, KEPT)
    for base in (0, 3):
        for name in (".log", ".index", ".timeindex"):
            path = root / "t-0" / f"{base:020d}{name}"
            path.rename(f"{path}.deleted")
    at = positions(log.read_bytes())[-1]
    for _ in flips(log, at, at + 8):
        refused(root)
    recover(STORAGE, f"{root}/t-0")
    assert {one.offset for one in logs.read_log(root).records} == {*KEPT, *range(6, 45)}


def test_swap_log_that_overlaps_the_active_segment_is_refused(root: Path) -> None:
    put_swap(root, 39, (39, 40, 42))
    refused(root, match="active segment")


def test_overlapping_outputs_are_refused(root: Path) -> None:
    put_swap(root, 0, (0, 1, 4))
    put_swap(root, 3, (3, 4))
    refused(root)


def test_damage_in_one_partition_does_not_stop_the_others(root: Path) -> None:
    log = put_swap(root, 0, KEPT)
    (root / "t-0").rename(root / "t-1")
    logs.make_log(root / "new", SEGMENTS, end=45, checkpoints={})
    (root / "new" / "t-0").rename(root / "t-0")
    shutil.rmtree(root / "new")
    put_swap(root, 0, KEPT)
    damaged = root / "t-1" / log.name
    data = bytearray(damaged.read_bytes())
    data[positions(bytes(data))[-1] + 6] ^= 1
    damaged.write_bytes(data)
    (root / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 3\nt 1 3\n")
    for dry_run in (True, False):
        done = api.recover([str(root)], dry_run=dry_run)
        assert [partition.error is None for partition in done.partitions] == [True, False]
        assert done.exit_code == 3
        assert damaged.exists()
    assert not log.exists()
    assert {one.offset for one in logs.read_log(root).records} == {*KEPT, *range(6, 45)}


def test_two_swapped_groups_are_refused(root: Path) -> None:
    """A loader would remove the segments between them."""
    put_swap(root, 0, (0, 1))
    put_swap(root, 9, (9, 10))
    refused(root)


def test_index_of_another_log_is_refused(root: Path) -> None:
    put_swap(root, 0, KEPT)
    (root / "t-0" / f"{0:020d}.index.swap").write_bytes(bytes([0, 0, 0, 1, 0, 1, 0, 0]))
    refused(root)


def test_interrupted_split_of_the_last_segment_is_finished(root: Path) -> None:
    """As Kafka's loader does. No other swap may replace the active segment, and this one keeps its
    batches.
    """
    put_swap(root, 42, (42, 43))
    put_swap(root, 44, (44,))
    recover(STORAGE, f"{root}/t-0")
    assert logs.read_log(root).bases == [*BASES, 44]
    assert [one.offset for one in logs.read_log(root).records] == list(range(45))


def test_split_that_lost_a_batch_is_refused(root: Path) -> None:
    put_swap(root, 42, (42,))
    put_swap(root, 44, (44,))
    refused(root, match="active segment")


def test_originals_may_replace_their_cleaned_segment(root: Path) -> None:
    """An undo does this: the segment in the log has only some of their batches."""
    for suffix in (".log", ".index", ".timeindex"):
        for base in (0, 3):
            (root / "t-0" / f"{base:020d}{suffix}").unlink()
    put_swap(root, 0, KEPT, suffix="")
    put_swap(root, 0, (0, 1, 2))
    put_swap(root, 3, (3, 4, 5))
    recover(STORAGE, f"{root}/t-0")
    assert [one.offset for one in logs.read_log(root).records] == list(range(45))


def test_missing_sources_do_not_stop_a_recovery(root: Path) -> None:
    """A crash during recovery can leave any of them."""
    for gone in ((0,), (3,), (0, 3)):
        put_swap(root, 0, KEPT)
        for base in gone:
            for name in (".log", ".index", ".timeindex"):
                (root / "t-0" / f"{base:020d}{name}").unlink()
        assert leftovers(STORAGE, f"{root}/t-0")
        recover(STORAGE, f"{root}/t-0")
        assert {one.offset for one in logs.read_log(root).records} == {*KEPT, *range(6, 45)}
        for base in (0, 3):
            for name, data in logs.segment_bytes(base, SEGMENTS[base]).items():
                (root / "t-0" / f"{base:020d}{name}").write_bytes(data)
