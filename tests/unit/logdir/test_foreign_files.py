"""Put links, pipes, sparse files and the like in place of every file. Winnow reads and changes
nothing outside the log directory, does not hang, does not fill memory, and refuses with its own
errors.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.logdir.foreign import KINDS, NAMES, RUN, UNREADABLE, bounded, make, put, state_of
from tests.unit.logdir.foreign_verbs import VERBS
from winnow.errors import WinnowError
from winnow.recovery.runs.run import recover_log_dirs
from winnow.recovery.runs.values import Action


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory, if there is one: each of these runs syncs dozens of times."""
    place = Path("/dev/shm")  # noqa: S108 - a place, not a name of a file
    with tempfile.TemporaryDirectory(
        prefix="winnow-foreign-", dir=place if place.is_dir() else None
    ) as path:
        yield Path(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_outside_is_read_or_changed(memory: Path, name: str, kind: str) -> None:
    for verb, act in VERBS.items():
        home = memory / verb
        log_dir = make(home)
        put(log_dir, name, kind)
        before = state_of(home / "outside")
        told: object = None
        with bounded():
            try:
                told = act(log_dir)
            except (WinnowError, OSError) as error:
                told = error
        assert state_of(home / "outside") == before, verb
        # Inspect shows a file's content, and a hard link is that file.
        if (verb, kind) != ("inspect", "hard link"):
            assert UNREADABLE not in f"{told!r} {told}", verb


def test_link_in_place_of_a_partition_does_not_stop_other_purges(memory: Path) -> None:
    log_dir = make(memory)
    (log_dir / "a-0").symlink_to(memory / "outside" / "below")
    before = state_of(memory / "outside")
    (purged,) = recover_log_dirs([str(log_dir)], purge_run=RUN).partitions
    assert (purged.error, purged.actions) == (None, (Action.RECOVERED, Action.PURGED))
    assert not (log_dir / "t-0" / f".winnow-kept-{RUN}").exists()
    assert state_of(memory / "outside") == before
    linked, _ = recover_log_dirs([str(log_dir)], purge_run="all").partitions
    assert "symbolic link" in (linked.error or "")
    assert state_of(memory / "outside") == before
