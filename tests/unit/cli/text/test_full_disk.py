"""The first and last steps of `doctor` for full disks and lost metadata logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.unit.diagnoses import diagnosis
from winnow.cli.text.full_disk import first_steps
from winnow.cli.text.one_page import last_step
from winnow.start.values import BrokerStart, Fate, LogDirStart
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


PAGE = diagnosis(0, FULL)


def steps(*disks: Disk, starts: Sequence[BrokerStart] = ()) -> list[str]:
    return list(first_steps(disks, starts))


def start(**changes: Any) -> BrokerStart:
    own = LogDirStart(path=FULL.log_dir, fate=Fate.LOADS, reasons=(), logs=())
    usual = {"node_id": 1, "fate": Fate.UNKNOWN, "reasons": ("why",), "log_dirs": (own,)}
    return BrokerStart(**usual | changes)


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


def test_broker_whose_quorum_may_have_the_metadata_log_starts_only_with_a_majority() -> None:
    lost = replace(FULL, metadata_log_bytes=0, free_bytes=900 * MIB)
    quorum = start(of_broker=Fate.UNKNOWN, needs_quorum=True)
    for disk in (lost, replace(lost, clean_shutdown=True)):
        [first] = steps(disk, starts=[quorum])
        assert first.startswith("start the broker only while a majority of the controllers runs")
        [first] = steps(disk, starts=[start(of_broker=Fate.LOSES)])
        assert first.startswith("do not start the broker")


def test_last_step_of_doctor_fits_the_first() -> None:
    def last(**changes: Any) -> str:
        return last_step(replace(PAGE, starts=(start(**changes),)))

    quorum = "only while a majority of the controllers runs with its metadata log"
    unknown = last(of_broker=Fate.UNKNOWN, needs_quorum=True)
    assert unknown == f"Start the broker {quorum}, with its settings unchanged."
    known = last(of_broker=Fate.RECOVERS, fate=Fate.RECOVERS, needs_quorum=True)
    assert known == unknown
    more = last(of_broker=Fate.UNKNOWN, needs_quorum=True, reasons=("why", "and why"))
    assert more == last(of_broker=Fate.LOSES)
    assert more == "Do not start the broker before what is named above is mended."
    assert last(fate=Fate.LOADS, reasons=()) == "Start the broker with its settings unchanged."


def test_room_for_the_lock_comes_before_all_commands() -> None:
    _, room, copy = steps(replace(FULL, lacks_lock=True))
    assert room.startswith("make room for /var/lib/kafka logs/.lock")
    assert "Move a file that is no part of a log" in room
    assert copy.startswith("copy the metadata log")
    assert len(steps(replace(FULL, lacks_lock=True, free_bytes=900 * MIB))) == 0
    stopped = replace(FULL, lacks_lock=True, clean_shutdown=True)
    assert steps(stopped) == []
    [room] = steps(replace(stopped, free_bytes=900 * MIB, free_files=0))
    assert room.startswith("make room for /var/lib/kafka logs/.lock, which is missing")


def test_last_step_on_a_full_disk_names_what_else_keeps_the_broker_from_starting() -> None:
    own = LogDirStart(path=FULL.log_dir, fate=Fate.LOSES, reasons=(), logs=(), frees_first=True)
    for of_broker, words in (
        (Fate.STOPS, "before what is named above is mended, space is free and"),
        (Fate.LOADS, "before space is free and"),
    ):
        here = start(fate=Fate.LOSES, of_broker=of_broker, log_dirs=(own,))
        assert words in last_step(replace(PAGE, starts=(here,)))


def test_nothing_comes_first_where_there_is_room_or_the_broker_was_stopped() -> None:
    assert steps(replace(FULL, free_bytes=900 * MIB)) == []
    assert steps(replace(FULL, clean_shutdown=True)) == []
