"""What comes before everything else where a broker died of a full disk."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.advice import ONLY_WHILE
from winnow.logdir.names import LOCK, METADATA_TOPIC
from winnow.start.values import Fate

if TYPE_CHECKING:
    from winnow.start.values import BrokerStart
    from winnow.verbs.doctor.values import Disk

PAGE = "docs/how-to/disk-full.md"


@dataclass(frozen=True, slots=True)
class UrgentStep:
    """What a person does before any command of Winnow."""

    text: str
    short: str
    """For a page of 24 lines."""
    command: tuple[str, ...] = ()


def first_steps(disks: Iterable[Disk], starts: Sequence[BrokerStart] = ()) -> Iterator[str]:
    """Yield each step of `urgent_steps` as one sentence."""
    for step in urgent_steps(disks, starts):
        yield f"{step.text}: `{shlex.join(step.command)}`" if step.command else step.text


def urgent_steps(disks: Iterable[Disk], starts: Sequence[BrokerStart] = ()) -> Iterator[UrgentStep]:
    """Yield what to do before any command; nothing unless a broker crashed on a full disk, or has
    lost its metadata log. `starts`: what happens if the brokers start now.
    """
    in_quorum = {d.path for start in starts if start.needs_quorum for d in start.log_dirs}
    loses = [start for start in starts if start.of_broker is Fate.LOSES]
    losing = {d.path for start in loses for d in start.log_dirs}
    disks = list(disks)
    if any(disk.is_full for disk in disks if not disk.clean_shutdown):
        yield UrgentStep(
            "stop the broker's supervisor (`systemctl disable --now`, `docker update "
            "--restart=no`, `kubectl scale --replicas=0`): each start on a full disk can delete "
            f"records and empty the metadata log ({PAGE})",
            "first stop the broker's supervisor (`systemctl disable --now`): each start on a full "
            f"disk can delete records ({PAGE})",
        )
    for disk in disks:
        full = disk.is_full if not disk.clean_shutdown else disk.free_files == 0
        if disk.lacks_lock and full:
            yield UrgentStep(
                f"make room for {disk.log_dir}/{LOCK}, which is missing: no file can be made "
                "on that disk, and no command below changes a log directory without its lock. "
                "Move a file that is no part of a log from that disk elsewhere",
                f"make room for {LOCK}: move a file that is no part of a log from {disk.log_dir} "
                "elsewhere",
            )
        metadata = f"{disk.log_dir}/{METADATA_TOPIC}-0"
        if disk.metadata_log_bytes == 0 and disk.log_dir in in_quorum:
            yield UrgentStep(
                f"start the broker {ONLY_WHILE}: {metadata} is empty. {PAGE} says where to get the "
                "metadata log back",
                f"start the broker {ONLY_WHILE}, for its own is empty ({PAGE})",
            )
        elif disk.metadata_log_bytes == 0 and (disk.log_dir in losing or not disk.clean_shutdown):
            yield UrgentStep(
                f"do not start the broker: {metadata} is empty, so a start may set aside every "
                f"partition. {PAGE} says where to get the metadata log back",
                "do not start the broker before its metadata log, which is empty, is back: a start "
                f"may set aside every partition ({PAGE})",
            )
        elif disk.metadata_log_bytes and disk.is_full and not disk.clean_shutdown:
            yield UrgentStep(
                "copy the metadata log to another disk",
                "copy the metadata log to another disk:",
                ("cp", "-a", "--sparse=always", metadata, "COPY"),
            )
