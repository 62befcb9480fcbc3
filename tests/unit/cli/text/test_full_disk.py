from dataclasses import replace

from winnow.cli.text.full_disk import first_steps
from winnow.verbs.doctor.values import Disk

MIB = 2**20
FULL = Disk(
    log_dir="/var/lib/kafka logs",
    log_bytes=900 * MIB,
    free_bytes=0,
    total_bytes=1000 * MIB,
    free_files=7,
    read_only=False,
    clean_shutdown=False,
    metadata_log_bytes=5000,
    cleaner_checkpoint_ms=None,
)


def steps(*disks: Disk) -> list[str]:
    return list(first_steps(disks))


def test_before_all_else_the_supervisor_is_stopped_and_the_metadata_log_copied() -> None:
    other = replace(FULL, log_dir="/mnt/2", metadata_log_bytes=None)
    stop, copy = steps(other, FULL)
    assert stop.startswith("stop the broker's supervisor (`systemctl disable --now`")
    assert "`cp -a --sparse=always '/var/lib/kafka logs/__cluster_metadata-0' COPY`" in copy


def test_disk_without_inodes_is_a_full_disk() -> None:
    assert len(steps(replace(FULL, free_bytes=900 * MIB, free_files=0))) == 2


def test_broker_with_an_empty_metadata_log_must_not_start() -> None:
    _, empty = steps(replace(FULL, metadata_log_bytes=0))
    assert empty.startswith("do not start the broker: /var/lib/kafka logs/__cluster_metadata-0 is")
    room = replace(FULL, metadata_log_bytes=0, free_bytes=900 * MIB)
    assert steps(room) == [empty]


def test_nothing_comes_first_where_there_is_room_or_the_broker_was_stopped() -> None:
    assert steps(replace(FULL, free_bytes=900 * MIB)) == []
    assert steps(replace(FULL, clean_shutdown=True)) == []
