"""Who can change where a path leads. As root, with files of other users."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from winnow.storage.way import why_not_ours

STRANGER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "above" / "ledger"
    path.mkdir(parents=True, mode=0o755)
    return path


def give(path: Path, mode: int = 0o755, group: int = STRANGER) -> None:
    os.chown(path, STRANGER, group, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(mode)


def others_link(ledger: Path) -> None:
    """In a directory like /tmp, to a directory that only root can change."""
    ledger.rename(ledger.with_name("real"))
    ledger.symlink_to("real")
    give(ledger)
    ledger.parent.chmod(0o1777)


def through_their_directory(ledger: Path) -> None:
    """A link of root to a link in a stranger's directory, which leads back to root's."""
    theirs = ledger.parent / "theirs"
    theirs.mkdir()
    ledger.rename(ledger.with_name("real"))
    (theirs / "link").symlink_to("../real")
    ledger.symlink_to("theirs/link")
    give(theirs)


def loop(ledger: Path) -> None:
    ledger.rmdir()
    ledger.symlink_to(ledger)


NOT_OURS: dict[str, tuple[Callable[[Path], object], str]] = {
    "theirs": (give, "belongs to user"),
    "theirs, and a directory like /tmp": (lambda one: give(one, 0o1777), "belongs to user"),
    "theirs above": (lambda one: give(one.parent), "above belongs to user"),
    "theirs, for our group": (lambda one: give(one, 0o755, os.getegid()), "belongs to user"),
    "open to all": (lambda one: one.chmod(0o777), "anybody can write"),
    "open to all above": (lambda one: one.parent.chmod(0o777), "anybody can write"),
    "itself like /tmp": (lambda one: one.chmod(0o1777), "anybody can write"),
    "open to another group": (
        lambda one: (os.chown(one, 0, STRANGER), one.chmod(0o775)),
        "is not in can write",
    ),
    "their link": (others_link, "belongs to user"),
    "a way through their directory": (through_their_directory, "theirs belongs to user"),
}
OURS: dict[str, Callable[[Path], object]] = {
    "a private directory": lambda one: one.chmod(0o700),
    "in a directory like /tmp": lambda one: one.parent.chmod(0o1777),
    "missing in a directory like /tmp": lambda one: (one.rmdir(), one.parent.chmod(0o1777)),
    "open to our group": lambda one: one.chmod(0o775),
    "of another user and our group": lambda one: give(one, 0o775, os.getegid()),
    "our link": lambda one: (one.rename(f"{one}2"), one.symlink_to(f"{one}2")),
}


@as_root
@pytest.mark.parametrize("name", NOT_OURS)
def test_path_that_another_user_can_change_is_named(name: str, ledger: Path) -> None:
    change, words = NOT_OURS[name]
    change(ledger)
    assert words in str(why_not_ours(str(ledger)))
    assert words in str(why_not_ours(f"{ledger}/../{ledger.name}/./"))


@as_root
@pytest.mark.parametrize("name", OURS)
def test_path_that_only_this_user_can_change_is_ours(name: str, ledger: Path) -> None:
    OURS[name](ledger)
    assert why_not_ours(str(ledger)) is None


def test_links_in_a_circle_are_an_error(ledger: Path) -> None:
    loop(ledger)
    with pytest.raises(OSError, match="symbolic links"):
        why_not_ours(str(ledger))


def test_relative_path_counts_from_the_working_directory(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ledger)
    ledger.chmod(0o777)
    assert "anybody can write" in str(why_not_ours("."))
