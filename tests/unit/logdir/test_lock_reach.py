from __future__ import annotations

import os
from pathlib import Path

import pytest

from winnow.storage.mounts import local_only, why_seen_here_only

DEVICE = os.makedev(0, 53)
LINE = (
    "36 35 0:53 / /mnt/kafka rw,noatime shared:1 - {type} server:/kafka "
    "rw,vers=4.2,{option},addr=10.0.0.1"
)


@pytest.mark.parametrize(
    ("kind", "option", "found"),
    [
        ("nfs4", "local_lock=none", None),
        ("nfs4", "local_lock=all", "nfs4 mounted with local_lock=all"),
        ("nfs", "local_lock=flock", None),
        ("nfs", "nolock", "nfs mounted with nolock"),
        ("cifs", "nobrl", "cifs mounted with nobrl"),
        ("ext4", "nolock", None),
    ],
)
def test_local_only_is_decided_by_the_mount_options(
    kind: str, option: str, found: str | None
) -> None:
    lines = [LINE.format(type=kind, option=option)]
    assert local_only(lines, DEVICE) == found
    assert local_only(lines, os.makedev(0, 54)) is None


def test_malformed_mount_lines_are_ignored() -> None:
    assert local_only(["", "x - y", "36 35 0:53 / /mnt rw - nfs4"], DEVICE) is None


def test_local_directory_needs_no_warning(tmp_path: Path) -> None:
    assert why_seen_here_only(str(tmp_path)) is None
