"""Find out whether a cleaning changes nothing: its output is its only source, byte for byte.

Kafka's cleaner then replaces each file by an equal one of the same time (S5.9), so the source can
stay as it is (docs/decisions/0049).
"""

from __future__ import annotations

import numpy as np

from winnow.logdir.names import INDEX_SUFFIXES, segment_file
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes


class OnlySource:
    """Compares the output of a group with its only source, piece by piece, in order."""

    def __init__(self, directory: str, segments: tuple[Segment, ...]) -> None:
        """`segments`: the sources of the group. With several, nothing is ever the same. Nor is a
        source whose indexes a broker rebuilds.
        """
        self._directory = directory
        self._source = segments[0] if len(segments) == 1 and not segments[0].rebuilt else None
        self._end = 0
        self.begins_so = self._source is not None
        """Whether the source begins with all of the output so far."""

    def add(self, data: Bytes, buf: Bytes, start: int) -> None:
        """Compare the next bytes of the output. `buf`: the source, from byte `start` on."""
        if self.begins_so:
            at = self._end - start
            self.begins_so = at >= 0 and np.array_equal(data, buf[at : at + len(data)])
            self._end += len(data)

    def is_all(self, index: bytes, timeindex: bytes, txnindex: bytes | None) -> bool:
        """Return whether the whole output was added and is the source, and its indexes, or None for
        no transaction index, are those of the source.
        """
        source = self._source
        if source is None or not self.begins_so or self._end != source.log_bytes:
            return False
        sizes = (source.index_bytes, source.timeindex_bytes, source.txnindex_bytes)
        for suffix, size, content in zip(
            INDEX_SUFFIXES, sizes, (index, timeindex, txnindex), strict=True
        ):
            if size != (None if content is None else len(content)):
                return False
            path = f"{self._directory}/{segment_file(source.base_offset, suffix)}"
            if content and Places().read_bytes(path) != content:
                return False
        return True
