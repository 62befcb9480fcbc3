"""Both ways of benchmarks/reading.py check the same batches; the page says which way failed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.reading import (
    Reading,
    _check_range,
    _checked,
    _ranges_of,
    cause_of,
    parse,
    report,
    segment,
)


def test_ranges_have_the_batches_of_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.reading.DATA", tmp_path)
    monkeypatch.setattr("winnow.scan.cut.SPLIT_BYTES", 1 << 18)
    with segment(1) as log:
        content = np.frombuffer(log.read_bytes(), np.uint8).copy()
        batches = _checked(content, 0)
        ranges = _ranges_of(str(log))
        assert len(ranges) > 1
        assert [start for start, _, _ in ranges[1:]] == [end for _, end, _ in ranges[:-1]]
        assert sum(_check_range((str(log), *each)) for each in ranges) == batches > 1
        content[-1] ^= 1
        with pytest.raises(ValueError, match="CRC"):
            _checked(content, 0)
    assert list(tmp_path.iterdir()) == []


def test_page_shows_what_failed() -> None:
    error = cause_of("Traceback\njava.lang.OutOfMemoryError: heap\n  at x\n")
    readings = [
        Reading("ranges", 1024, 65_536, 16, 0.5, 700 << 20),
        Reading("binaryFile", 1024, error=error),
    ]
    rows = report(readings, parse(["--mib", "1024"])).splitlines()[-2:]
    assert rows == [
        "| 1,024 | ranges of whole batches, mapped | 16 | 0.50 | 2,048 | 700 |",
        "| 1,024 | `binaryFile`, one value | failed: java.lang.OutOfMemoryError: heap | | | |",
    ]
