"""Where tests put their files: in memory, on the disk, or on real file systems of some MiB that
they fill.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

MIB = 2**20
BALLAST = "ballast"
"""A file beside what a test puts on a disk."""
MEMORY = Path("/dev/shm")  # noqa: S108 - a place, not a name of a file
_ROOM = 4 * 2**30
ON_A_LOOP = {
    "ext4": ("mkfs.ext4", "-q", "-m", "0"),
    "xfs": ("mkfs.xfs", "-q"),
    "btrfs": ("mkfs.btrfs", "-q"),
}
"""The commands that make a file system in a file, by its kind."""
PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}
"""Debian's, with these commands."""
LEAST_MIB = {"xfs": 320, "btrfs": 256}
"""xfs refuses less than 300 MiB; the parts of a smaller btrfs are not those of a large one."""
FEW_INODES = 4
"""A broker needs more inodes than these to go on."""


def memory() -> Path | None:
    """A file system in memory with room for the files of all tests, where programs may run. The
    tests sync each of their files: on a disk that takes longer than all the rest.
    """
    try:
        status = os.statvfs(MEMORY)
        (available,) = re.findall(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except (OSError, ValueError):
        return None
    room = min(status.f_bavail * status.f_frsize, int(available) * 1024 // 2)
    return None if room < _ROOM or status.f_flag & os.ST_NOEXEC else MEMORY


class NoDiskError(Exception):
    """This machine does not allow mounting a file system; the message says why."""


@contextmanager
def small_disk(
    path: Path, *, mib: int, kind: str = "tmpfs", options: str = "", inodes: int = 512
) -> Iterator[Path]:
    """A file system at `path`, which must not exist. It is unmounted at the end.

    kind: `tmpfs`, or one of `ON_A_LOOP`, which lie in a file beside `path`; xfs and btrfs are at
    least `LEAST_MIB` large. inodes: those of ext4.
    """
    path.mkdir(parents=True)
    if kind == "tmpfs":
        _do("mount", "-t", "tmpfs", "-o", f"size={mib}m{options}", "winnow-test", str(path))
    else:
        image = path.with_suffix(".image")
        with image.open("wb") as file:
            file.truncate(max(mib, LEAST_MIB.get(kind, 0)) * MIB)
        count = ("-N", str(inodes)) if kind == "ext4" else ()
        _do(*ON_A_LOOP[kind], *count, str(image))
        _do("mount", "-o", f"loop{options}", str(image), str(path))
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def take_all_but(disk: Path, *, mib: int) -> None:
    """Fill a file system until `mib` MiB are free, with one file."""
    taken = free_bytes(disk) - mib * MIB
    if taken > 0:
        with (disk / BALLAST).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, taken)


@contextmanager
def disk_or_skip(path: Path, *, mib: int, kind: str = "tmpfs", options: str = "") -> Iterator[Path]:
    """`small_disk`; the test is skipped where it cannot be mounted."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(small_disk(path, mib=mib, kind=kind, options=options))
        except NoDiskError as error:
            pytest.skip(str(error))
        yield disk


def after_an_error(disk: Path) -> None:
    """Let the kernel find an error in the ext4 at `disk`. With `errors=remount-ro`, it takes no
    change from then on.
    """
    device = os.stat(disk).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    trigger = Path(f"/sys/fs/ext4/{block}/trigger_fs_error")
    try:
        trigger.write_text("1", encoding="ascii")
    except OSError as error:
        pytest.skip(f"no error of a file system can be made here: {error}")


def fill(disk: Path) -> None:
    """To the last byte."""
    with (disk / "ballast").open("wb", buffering=0) as file:
        for size in (2**16, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    assert os.statvfs(disk).f_bavail == 0


def fill_names(disk: Path) -> Path:
    """To the last inode. Return the directory with the files that take them."""
    names = disk / "names"
    names.mkdir()
    with suppress(OSError):
        while True:
            (names / str(os.statvfs(disk).f_favail)).touch(exist_ok=False)
    assert os.statvfs(disk).f_favail == 0
    return names


@contextmanager
def last_inodes_taken(disk: Path) -> Iterator[None]:
    """Other files take the last few inodes of a file system that has nearly none, as they do on a
    machine that goes on working. Elsewhere nothing is taken.
    """
    taken: list[Path] = []
    if 0 < os.statvfs(disk).f_favail < FEW_INODES:
        taken = [disk / f"taken-{n}" for n in range(os.statvfs(disk).f_favail)]
    for path in taken:
        path.touch(exist_ok=False)
    try:
        yield
    finally:
        for path in taken:
            path.unlink()


def free_bytes(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def _do(*command: str) -> None:
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        kind = command[0].rpartition(".")[2]
        package = f": install {PACKAGES[kind]}" if kind in PACKAGES else ""
        raise NoDiskError(f"there is no {command[0]} here{package}")
    done = subprocess.run([program, *command[1:]], check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoDiskError(f"{command[0]} is not allowed here: {done.stderr.strip()}")
