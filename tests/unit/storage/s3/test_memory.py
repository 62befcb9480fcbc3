"""What a process remembers of listings in S3, without a bucket."""

from __future__ import annotations

import pytest

from winnow.storage.s3 import memory
from winnow.storage.s3.memory import Memory, Stored


def stored(key: str) -> Stored:
    return Stored(key, 1, "tag", 0)


@pytest.mark.timeout(20)
def test_many_directories_are_remembered_in_linear_time() -> None:
    known = Memory()
    for number in range(100_000):
        known.list_as(f"t-{number}", [stored(f"t-{number}/0.log")])
    assert known.find("t-0/0.log") == stored("t-0/0.log")


def test_objects_that_were_written_removed_or_forgotten_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only as many objects are remembered as the limit allows, of the directories listed last."""
    monkeypatch.setattr(memory, "_MOST_OBJECTS", 4)
    known = Memory()
    known.list_as("a", [stored("a/1"), stored("a/2")])
    known.list_as("a", [stored("a/1"), stored("a/2")])
    known.add(stored("a/2"))
    known.add(stored("b/1"))
    known.remove("b/1", "b/1", "c/1")
    known.list_as("c", [stored("c/1"), stored("c/2")])
    known.forget(lambda directory: directory == "c")
    known.list_as("c", [stored("c/1"), stored("c/2")])
    assert known.find("a/1") == stored("a/1")
    known.list_as("d", [stored("d/1")])
    assert [bool(known.known_in(directory)) for directory in "abcd"] == [False, False, True, True]
