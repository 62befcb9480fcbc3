"""A log directory of a broker that was stopped cleanly lies on a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.disks import disk_or_skip, fill
from tests.fixtures.data import copy_file, copy_tree
from tests.kafka.starts.bases import broker_on, copy_base
from tests.kafka.starts.verdict import verdict
from winnow.start.values import Fate


@pytest.mark.slow
def test_broker_ends_with_a_directory_on_a_full_disk(tmp_path: Path) -> None:
    version = "2.8.2"  # later versions may only take the directory offline
    root = tmp_path / "root"
    copy_base(version, "stopped", root)
    (root / "b").rename(root / "whole")
    with disk_or_skip(root / "b", mib=8) as disk:
        for path in (root / "whole").iterdir():
            (copy_tree if path.is_dir() else copy_file)(path, disk / path.name)
        fill(disk)
        broker = broker_on(version, root, tmp_path / "home")
        broker.formats = False
        found = verdict(version, root, broker.properties)
        assert (found.fate, found.is_safe) == (Fate.UNKNOWN, False)
        try:
            broker.launch()
            assert broker.wait_until_dead(timeout_seconds=60) == 1
        finally:
            broker.kill()
