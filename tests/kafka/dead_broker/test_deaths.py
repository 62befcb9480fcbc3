"""Brokers whose supervisor starts them again on the full disk. `python -m
tests.kafka.dead_broker.deaths` does that with more versions of Kafka (docs/proofs/deaths.md).

As seen with Kafka 4.0 to 4.4: a segment whose recovery fails with any IOException is emptied, and
all later ones are deleted. The metadata log comes first. A later start with room makes all
partitions `-stray`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.disks import NoDiskError, small_disk
from tests.kafka.dead_broker.deaths import DISKS, STARTS, Outcome, die_and_follow
from tests.kafka.dead_broker.full_disk import Variant
from tests.kafka.dead_broker.load import Load
from tests.kafka.dead_broker.sre import Run
from tests.kafka.dead_broker.supervisor import METADATA

pytestmark = pytest.mark.spark


def _die_or_skip(variant: Variant, home: Path, load: Load, run: Run, *, starts: int) -> Outcome:
    try:
        with small_disk(home / "try", mib=8, kind=variant.kind):
            pass
    except NoDiskError as error:
        pytest.skip(f"no {variant.kind} can be mounted here: {error}")
    return die_and_follow(variant, home, load, run, starts=starts)


def test_start_on_a_disk_without_inodes_empties_the_metadata_log_and_a_copy_brings_all_back(
    load: Load, in_process: Run, tmp_path: Path
) -> None:
    variant = DISKS["ext4 without a free inode"]
    outcome = _die_or_skip(variant, tmp_path, load, in_process, starts=2)
    assert outcome.emptied == [METADATA], [(one.free_files, *one.said) for one in outcome.starts]
    doctor, verify, _ = (str(answer) for answer in outcome.refusals)
    assert "do not start the broker" in " ".join(doctor.split())
    assert METADATA in verify
    assert outcome.failures == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name for name, disk in DISKS.items() if not disk.two_log_dirs],  # see the page
)
def test_every_record_that_starts_on_a_full_disk_left_is_read(
    name: str, load: Load, in_process: Run, tmp_path: Path
) -> None:
    outcome = _die_or_skip(DISKS[name], tmp_path, load, in_process, starts=STARTS)
    assert outcome.failures == []
