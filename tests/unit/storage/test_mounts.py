import os
from pathlib import Path

import pytest

from tests.disks import after_an_error, disk_or_skip
from winnow.storage.local import LocalStorage
from winnow.storage.mounts import options, read_only

MOUNTINFO = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
44 27 7:1 / /mnt/a rw,relatime shared:7 master:1 - ext4 /dev/loop1 rw,errors=remount-ro,emergency_ro
45 27 0:40 / /mnt/- ro,nosuid - tmpfs - rw,size=1024k
444 27 7:2 / /mnt/\\040b rw - btrfs /dev/loop2 rw,subvol=/
46 27 7:2
47 27 7:2 / /mnt/c rw shared:1 -
"""


def volume_is_read_only(path: Path) -> bool:
    return LocalStorage().volume(str(path)).read_only


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ("44", {"rw", "relatime", "errors=remount-ro", "emergency_ro"}),
        ("45", {"ro", "nosuid", "rw", "size=1024k"}),
        ("444", {"rw", "subvol=/"}),
        ("4", set()),
        ("46", set()),
        ("47", set()),
    ],
)
def test_options_are_those_of_the_mount_and_of_its_file_system(
    mount: str, expected: set[str]
) -> None:
    assert options(MOUNTINFO, mount) == expected


def test_ext4_that_the_kernel_made_read_only_after_an_error_takes_no_change(
    tmp_path: Path,
) -> None:
    with disk_or_skip(
        tmp_path / "a disk", mib=16, kind="ext4", options=",errors=remount-ro"
    ) as disk:
        (disk / "log-dir").mkdir()
        assert not volume_is_read_only(disk / "log-dir")
        after_an_error(disk)
        with pytest.raises(OSError, match="Read-only file system"):
            (disk / "log-dir" / "file").touch()
        assert volume_is_read_only(disk / "log-dir")
    assert not volume_is_read_only(tmp_path)


def test_read_only_mount_takes_no_change(tmp_path: Path) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1, options=",ro") as disk:
        assert volume_is_read_only(disk)


def test_without_a_list_of_mounts_the_flag_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("winnow.storage.mounts._PROC", tmp_path / "nothing")
    fd = os.open(tmp_path, os.O_PATH)
    try:
        assert not read_only(fd)
    finally:
        os.close(fd)
