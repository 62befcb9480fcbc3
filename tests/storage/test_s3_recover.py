"""`recover` in S3 after the driver of a round was killed at any of its requests. It needs no Spark,
because everything is staged.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, cycle, pairwise
from pathlib import Path

import pytest

from tests.crash.logs import COMPACTED, MTIME_NS, T, make_log, record, stage, state_of
from tests.fixtures.data import copy_tree
from tests.storage.requests import Counting, Died, TakingTurns
from tests.storage.s3 import BUCKET
from tests.storage.test_output import upload
from winnow.api import recover
from winnow.cleaning.commit.commit import (
    begin_round,
    commit_cleaner_checkpoint,
    commit_groups,
)
from winnow.errors import UsageError
from winnow.logdir.checkpoints import read_offset_checkpoint, update_offset_checkpoint
from winnow.logdir.commit.journal import Journal, JournalGroup, with_staged
from winnow.logdir.commit.retain import delete_segments, follow_log_start
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.listing import list_segments
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT, STAGING_PREFIX
from winnow.state import TopicPartition
from winnow.storage.contract import COMMIT_RECORD, Storage
from winnow.storage.local import LocalStorage
from winnow.storage.places import open_tree
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.storage import S3Storage

BASES = (0, 5, 10, 15, 20)
KEPT = {1, 4, 7, 13, 14, 16}
END_OFFSET = 20


@dataclass(frozen=True)
class Round:
    """Two groups that are staged, and the log directory that they are of."""

    root: Path
    groups: Sequence[StagedGroup]
    journal: Journal
    of: TopicPartition = T

    def drive(self, storage: Storage, root: str) -> None:
        """What the driver of a run does: compaction, then retention."""
        directory = f"{root}/{self.of}"
        staging = f"{directory}/{STAGING_PREFIX}run"
        groups = [
            replace(
                g,
                paths={
                    suffix: f"{staging}/{path.rpartition('/')[2]}"
                    for suffix, path in g.paths.items()
                },
            )
            for g in self.groups
        ]
        journal = with_staged(storage, self.journal, groups)
        begin_round(storage, directory, staging, journal, [s for g in groups for s in g.sources])
        commit_groups(storage, directory, groups)
        commit_cleaner_checkpoint(storage, root, {self.of: END_OFFSET})
        remove_staging(storage, staging)
        delete_segments(storage, directory, list_segments(storage, directory).segments[:1])
        state = replace(
            state_of(self.root), log_dir=root, topic_partition=self.of, log_start_offset=10
        )
        follow_log_start(storage, state, COMPACTED)


@pytest.fixture
def a_round(tmp_path: Path) -> Round:
    segments = {
        base: [record(offset, offset % 3) for offset in range(base, base + 5)] for base in BASES
    }
    checkpoints = {
        CLEANER_CHECKPOINT: 5,
        LOG_START_CHECKPOINT: 7,
        "replication-offset-checkpoint": 25,
    }
    root = make_log(tmp_path / "log-dir", segments, end=25, checkpoints=checkpoints)
    sources = [replace(segment, log_stamp=()) for segment in state_of(root).segments]
    groups = [stage(root, tuple(sources[at : at + 2]), KEPT) for at in (0, 2)]
    journal = Journal(
        run_id="run",
        now=MTIME_NS // 10**6,
        end_offset=END_OFFSET,
        checkpoint_before=5,
        groups=tuple(
            JournalGroup(sources=group.sources, open_producers=(), lingering=(), output=None)
            for group in groups
        ),
        rest=None,
    )
    return Round(root, groups, journal)


def segments_of(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith(f"{T}/0")}


def here(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def there(url: str) -> dict[str, bytes]:
    bucket, prefix = S3Bucket(BUCKET), url.removeprefix(f"s3://{BUCKET}/")
    return {
        file.name: bucket.get(f"{prefix}/{file.name}")[0] for file in open_tree(url).list_tree()
    }


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_round_killed_at_any_request_is_finished_or_discarded(
    a_round: Round, s3: str, tmp_path: Path, every: int
) -> None:
    disk = tmp_path / "disk"
    copy_tree(a_round.root, disk)
    a_round.drive(LocalStorage(), str(disk))
    after = here(disk)
    seen, requests = list[tuple[bool, bool]](), 0
    ended = False
    while not ended:
        url = f"{s3}/{tmp_path.name}/{requests}"
        upload(a_round.root, url)
        with suppress(Died):
            a_round.drive(S3Storage(Counting(BUCKET, left=requests)), url)
            ended = True
        left = open_tree(url).list_tree()
        names = {file.name for file in left}
        begun = f"{T}/{STAGING_PREFIX}run/round.json" in names
        previewed = recover([url], dry_run=True).partitions[0]
        assert (COMMIT_RECORD in previewed.removed) is (f"{T}/{COMMIT_RECORD}" in names)
        assert open_tree(url).list_tree() == left
        (told,) = recover([url]).partitions
        assert told.error is None, told.error
        found = there(url)
        assert not [name for name in found if ".winnow" in name]
        compacted = begun or f"{T}/00000000000000000005.log" not in found
        deleted = f"{T}/00000000000000000000.log" not in found
        assert (f"{T}/00000000000000000005.log" in found) is not compacted
        assert compacted or not begun
        seen.append((compacted, deleted))
        if deleted:
            assert segments_of(found) == segments_of(after)
        if ended:
            assert found == after
        requests += every
    assert seen == sorted(seen), "what was done is never undone"
    assert {*seen} == {(False, False), (True, False), (True, True)}
    assert len(seen) * every > 20


def test_checkpoint_change_is_finished_too(a_round: Round, s3: str, tmp_path: Path) -> None:
    """It takes more than one write if a broker left a temporary file."""
    (a_round.root / f"{CLEANER_CHECKPOINT}.tmp").touch()
    url = f"{s3}/{tmp_path.name}"
    upload(a_round.root, url)
    with pytest.raises(Died):
        commit_cleaner_checkpoint(S3Storage(Counting(BUCKET, left=2)), url, {T: END_OFFSET})
    assert there(url).keys() == here(a_round.root).keys() | {COMMIT_RECORD}
    with pytest.raises(UsageError, match="matches no topic"):
        recover([url], topics=["none"])  # it has finished the change by then
    commit_cleaner_checkpoint(LocalStorage(), str(a_round.root), {T: END_OFFSET})
    assert there(url) == here(a_round.root)


U = TopicPartition("t", 1)
BOTH = (str(T), str(U))


def alternating() -> Iterator[str]:
    return cycle(BOTH)


def one_ahead() -> Iterator[str]:
    return cycle((*BOTH[:1] * 7, *BOTH[1:]))


def at_random(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield from (rng.choice(BOTH),) * rng.randint(1, 3)


SCHEDULES: dict[str, Callable[[], Iterator[str]]] = {
    "alternating": alternating,
    "one ahead": one_ahead,
    **{f"random {seed}": lambda seed=seed: at_random(seed) for seed in range(4)},  # type: ignore[misc]
}


@pytest.fixture
def two_rounds(a_round: Round) -> tuple[Round, Round]:
    """Of two partitions of one log directory."""
    copy_tree(a_round.root / str(T), a_round.root / str(U))
    for path in map(str, a_round.root.glob("*-offset-checkpoint")):
        offset = read_offset_checkpoint(LocalStorage(), path)[T]
        update_offset_checkpoint(LocalStorage(), path, {U: offset})
    return a_round, replace(a_round, of=U)


def drive_both(rounds: tuple[Round, Round], bucket: TakingTurns, url: str) -> bool:
    """Return whether both ended. Otherwise the driver died."""
    storage = S3Storage(bucket)

    def drive(one: Round) -> None:
        try:
            one.drive(storage, url)
        finally:
            bucket.end(str(one.of))

    with ThreadPoolExecutor(2) as threads:
        driven = [threads.submit(drive, one) for one in rounds]
        errors = [one.exception() for one in driven]
    assert all(error is None or isinstance(error, Died) for error in errors), errors
    return errors == [None, None]


@pytest.mark.parametrize(
    ("schedule", "every"),
    [
        ("alternating", 5),
        pytest.param("random 0", 4, marks=pytest.mark.slow),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in SCHEDULES),
    ],
)
def test_two_rounds_killed_at_any_request_end_like_one_after_the_other(
    two_rounds: tuple[Round, Round], s3: str, tmp_path: Path, schedule: str, every: int
) -> None:
    disk = tmp_path / "disk"
    copy_tree(two_rounds[0].root, disk)
    for one in two_rounds:
        one.drive(LocalStorage(), str(disk))
    after = here(disk)
    seen: dict[str, set[tuple[bool, bool]]] = {name: set() for name in BOTH}
    for requests in count(0, every):
        url = f"{s3}/{tmp_path.name}/{requests}"
        upload(two_rounds[0].root, url)
        bucket = TakingTurns(BUCKET, BOTH, SCHEDULES[schedule](), left=requests)
        ended = drive_both(two_rounds, bucket, url)
        left = {file.name for file in open_tree(url).list_tree()}
        told = recover([url]).partitions
        assert [one.error for one in told] == [None, None]
        found = there(url)
        assert not [name for name in found if ".winnow" in name]
        for name in BOTH:
            begun = f"{name}/{STAGING_PREFIX}run/round.json" in left
            compacted = begun or f"{name}/00000000000000000005.log" not in found
            deleted = f"{name}/00000000000000000000.log" not in found
            assert (f"{name}/00000000000000000005.log" in found) is not compacted
            seen[name].add((compacted, deleted))
            if deleted:
                segments = f"{name}/0"
                assert {n: data for n, data in found.items() if n.startswith(segments)} == {
                    n: data for n, data in after.items() if n.startswith(segments)
                }
        if ended:
            assert found == after
            assert sum(one != other for one, other in pairwise(bucket.owners)) > 4
            assert requests > 30
            break
    for states in seen.values():
        assert states == {(False, False), (True, False), (True, True)}
