from __future__ import annotations

import errno
from pathlib import Path

import pytest

from winnow.logdir.commit.staging import remove_staging
from winnow.storage.local import LocalStorage


class NoRoomForNames(LocalStorage):
    def __init__(self, number: int) -> None:
        self.number = number

    def rename(self, source: str, target: str) -> None:
        raise OSError(self.number, "no room", source, None, target)


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    path = tmp_path / ".winnow-run"
    (path / "below").mkdir(parents=True)
    for name in ("a", "below/b"):
        (path / name).write_bytes(b"x")
    return path


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_staging_is_removed_even_if_it_cannot_be_renamed(staging: Path, number: int) -> None:
    remove_staging(NoRoomForNames(number), str(staging))
    assert list(staging.parent.iterdir()) == []
    remove_staging(NoRoomForNames(number), str(staging))


def test_other_error_is_raised(staging: Path) -> None:
    with pytest.raises(OSError, match="no room"):
        remove_staging(NoRoomForNames(errno.EIO), str(staging))
    assert (staging / "below" / "b").exists()
