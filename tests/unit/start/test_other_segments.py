"""Segments with offsets that are not theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.start.test_broker import log_of, start_of
from winnow.logdir.names import INDEX, LOG, segment_file
from winnow.start.values import Fate


@pytest.mark.parametrize(
    ("base", "words"), [(100, "would not start"), (-(2**31), "would split the segment")]
)
def test_broker_splits_only_segments_that_reach_too_far(
    tmp_path: Path, base: int, words: str
) -> None:
    """Kafka 4.3.1 on offsets below the base offset: "Split operation is only permitted for segments
    with overflow", and it ends.
    """
    copy_base("4.3.1", "alone", tmp_path / "r")
    directory = tmp_path / "r" / "a" / "d-0"
    first, *others = sorted(directory.glob(f"*{LOG}"))
    data = first.read_bytes()
    for path in (first, *others):
        for file in directory.glob(f"{path.name[:20]}.*"):
            file.unlink()
    if base < 0:  # offsets that grow beyond the reach of the base offset
        data = (2**31).to_bytes(8) + data[8:]
    (directory / segment_file(max(base, 0), LOG)).write_bytes(data)
    start = log_of(start_of(tmp_path / "r" / "a"), "d-0")
    assert start.fate is Fate.UNKNOWN
    assert words in start.reason
    assert not (directory / segment_file(max(base, 0), INDEX)).exists()
