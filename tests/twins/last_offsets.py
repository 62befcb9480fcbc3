"""The simple, slow twin of `winnow.scan.last_offsets`: last offset per key with a
dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    key: bytes
    split: int
    number: int
    dirty: bool


def survivors(records: Sequence[KeyedRecord]) -> set[tuple[int, int]]:
    """(split, number) of each record that its key keeps (S5.5). `records` are in offset order."""
    latest = {r.key: (r.split, r.number) for r in records if r.dirty}
    return {
        (r.split, r.number)
        for r in records
        if (latest[r.key] == (r.split, r.number) if r.dirty else r.key not in latest)
    }
