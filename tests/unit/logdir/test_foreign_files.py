"""Put links, pipes, sparse files and the like in place of every file. Winnow reads and changes
nothing outside the log directory, does not hang, does not fill memory, and refuses with its own
errors.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.deep import deep_directory
from tests.unit.logdir.foreign import KINDS, NAMES, RUN, UNREADABLE, bounded, make, put, state_of
from tests.unit.logdir.foreign_verbs import VERBS
from winnow.api import recover
from winnow.errors import WinnowError
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.files import tree_bytes
from winnow.recovery.runs.values import Action
from winnow.storage.local import LocalStorage


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_outside_is_read_or_changed(tmp_path: Path, name: str, kind: str) -> None:
    for verb, act in VERBS.items():
        home = tmp_path / verb
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


def test_link_in_place_of_a_partition_does_not_stop_other_purges(tmp_path: Path) -> None:
    log_dir = make(tmp_path)
    (log_dir / "a-0").symlink_to(tmp_path / "outside" / "below")
    before = state_of(tmp_path / "outside")
    (purged,) = recover([str(log_dir)], purge_run=RUN).partitions
    assert (purged.error, purged.actions) == (None, (Action.RECOVERED, Action.PURGED))
    assert not (log_dir / "t-0" / f".winnow-kept-{RUN}").exists()
    assert state_of(tmp_path / "outside") == before
    linked, _ = recover([str(log_dir)], purge_run="all").partitions
    assert "symbolic link" in (linked.error or "")
    assert state_of(tmp_path / "outside") == before


def test_purge_finds_what_only_one_of_two_brokers_keeps(tmp_path: Path) -> None:
    keeping = make(tmp_path)
    other = tmp_path / "other"
    (other / "t-0").mkdir(parents=True)
    (other / "meta.properties").write_text("version=1\nnode.id=9\ncluster.id=c\n")
    purged = recover([str(keeping), str(other)], purge_run=RUN).partitions
    assert [Path(found.log_dir) for found in purged] == [keeping]
    assert not (keeping / "t-0" / f".winnow-kept-{RUN}").exists()


def test_deep_directory_is_counted(tmp_path: Path) -> None:
    """Python can't call itself so often. `doctor` counts what a preparation takes."""
    with deep_directory(tmp_path) as deepest:
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=deepest))
        os.truncate(f"/proc/self/fd/{deepest}/file", 5)
    assert tree_bytes(LocalStorage(), str(tmp_path)) == 5
    remove_staging(LocalStorage(), str(tmp_path / "d"))  # pytest can't either
