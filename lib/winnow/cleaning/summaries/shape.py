"""Whether a cleaning leaves a segment as it is, as long as each of its keys is the last."""

from __future__ import annotations

from winnow.wire.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from winnow.wire.buffers import Rows
from winnow.wire.kernels.headers import EMPTY, LEGACY

_CHANGES = TRANSACTIONAL | CONTROL | DELETE_HORIZON | LEGACY | EMPTY


class Shape:
    """Receives the batches of a cleaned segment, piece by piece, in order.

    Time alone changes tombstones, markers and what has a delete horizon; other partitions'
    coordinators decide transactions; batches without records depend on their producers; and v0 and
    v1 are converted. All else stays, until a later record has its key (S5.4, S5.5).
    """

    def __init__(self) -> None:
        self.stays = True
        self.first_batch = -1
        self.next_offset = 0
        """The offset after the last batch."""
        self.batches = 0

    def add(self, rows: Rows, bits: int, *, tombstones: bool) -> None:
        """Add batches, dtype BATCH. `bits`: see `bits_of`. `tombstones`: whether any record has no
        value.
        """
        if not len(rows):
            return
        if not self.batches:
            self.first_batch = int(rows["base_offset"][0])
        self.next_offset = int(rows["last_offset"][-1]) + 1
        self.batches += len(rows)
        self.stays = self.stays and not tombstones and not bits & _CHANGES
