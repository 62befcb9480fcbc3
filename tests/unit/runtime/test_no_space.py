"""The message for a full file system says whether bytes or inodes are missing."""

from __future__ import annotations

import errno

import pytest

from winnow.runtime.no_space import words_of_no_space
from winnow.storage.contract import Volume
from winnow.storage.places import Places


@pytest.mark.parametrize(
    ("inodes", "words"),
    [
        (0, "No file can be made there, although 54.0 MiB are free. Inodes are what is missing"),
        (12, "Now 12 inodes and 54.0 MiB are free there: `df -i` and `df` show what is missing"),
        (5000, "No space left on device: '/kafka/t-0/0.log'"),
        (None, "No space left on device: '/kafka/t-0/0.log'"),
    ],
)
def test_inodes_are_named_where_few_are_free(
    monkeypatch: pytest.MonkeyPatch, inodes: int | None, words: str
) -> None:
    volume = Volume(key="disk", free_bytes=54 * 2**20, total_bytes=2**30, free_files=inodes)
    monkeypatch.setattr(Places, "volume", lambda *_: volume)
    full = OSError(errno.ENOSPC, "No space left on device", "/kafka/t-0/0.log")
    assert words in words_of_no_space(full)
    assert ("inode" in words_of_no_space(full).lower()) == (inodes in {0, 12})
