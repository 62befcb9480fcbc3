"""A small log with transaction indexes, where the newest record of a key may be an aborted one."""

from __future__ import annotations

from pathlib import Path

from tests.crash.small_log import HOUR_MS, NOW
from tests.kafka.cleaner.txn_scripts import Script
from tests.log_writer.dir_writer import LogDirWriter

TWO_SEGMENTS = 900
"""Bytes: a run merges pairs of segments."""


def make_transactional_log(root: Path) -> Path:
    """A log directory with the one partition t-0, its last segment the active one."""
    with LogDirWriter(root, clock=lambda: NOW - HOUR_MS, cluster_id="c") as log_dir:
        log = Script(log_dir.partition("t", 0))
        log.put("a", "b", "c")
        log.data(1, "a", "d")
        log.abort(1)
        log.roll()
        log.data(2, "b", "g")  # aborted in the next segment
        log.put("c", "h")
        log.roll()
        log.data(3, "e")
        log.abort(2)
        log.commit(3)
        log.roll()
        log.data(1, "a", "f", "h")  # what it aborts is the newest of each of its keys
        log.abort(1)
        log.put("-c")
        log.roll()
        log.data(1, "b")
        log.data(4, "b", "i")  # open up to the active segment
        log.commit(1)
        log.roll()
        log.data(2, "x")  # nothing is left of this segment but a marker and its entry
        log.abort(2)
        log.roll()
        log.put("z")
        log.abort(4)
    return root
