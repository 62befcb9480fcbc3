"""What comes before everything else where a broker died of a full disk."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from winnow.logdir.names import METADATA_TOPIC

if TYPE_CHECKING:
    from winnow.verbs.doctor.values import Disk

PAGE = "docs/how-to/disk-full.md"


def first_steps(disks: Iterable[Disk]) -> Iterator[str]:
    """Yield what to do before any command; nothing unless a broker crashed on a full disk, or has
    lost its metadata log.
    """
    crashed = [disk for disk in disks if not disk.clean_shutdown]
    if any(disk.is_full for disk in crashed):
        yield (
            "stop the broker's supervisor (`systemctl disable --now`, `docker update "
            "--restart=no`, `kubectl scale --replicas=0`): each start on a full disk can delete "
            f"records and empty the metadata log ({PAGE})"
        )
    for disk in crashed:
        metadata = f"{disk.log_dir}/{METADATA_TOPIC}-0"
        if disk.metadata_log_bytes == 0:
            yield (
                f"do not start the broker: {metadata} is empty, so a start may set aside every "
                f"partition. {PAGE} says where to get the metadata log back"
            )
        elif disk.metadata_log_bytes and disk.is_full:
            copy = shlex.join(["cp", "-a", "--sparse=always", metadata])
            yield f"copy the metadata log to another disk: `{copy} COPY`"
