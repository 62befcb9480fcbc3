"""A diagnosis of `doctor` with nothing but disks."""

from __future__ import annotations

from winnow.verbs.doctor.values import Diagnosis, Disk, Reading


def diagnosis(now: int, *disks: Disk) -> Diagnosis:
    return Diagnosis(
        now=now,
        disks=disks,
        space=(),
        topics=(),
        gains=(),
        unfreed=(),
        overdue=(),
        held_back=(),
        troubles=(),
        misplaced=(),
        short_of_space=0,
        deep=Reading(bytes=0, seconds=None),
        census=None,
    )
