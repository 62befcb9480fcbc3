"""Bytes that were synced are never lost, and the page of kills counts what is in it."""

from __future__ import annotations

import random
from pathlib import Path

from tests.kafka.cleaner.runs import write_checkpoint
from tests.kafka.dead_broker.kill_record import COMPARISONS, Row, add_to, read_row
from tests.kafka.dead_broker.tails import lose_page_cache, synced_bytes
from tests.twins.encoding import encode_batch
from winnow.logdir.names import LOG, RECOVERY_POINT_CHECKPOINT, segment_file
from winnow.wire.plain import Record

BATCHES = [encode_batch([Record(offset, 1000, b"key", bytes(3000))]) for offset in range(20)]


def _log_dir(root: Path, recovery_point: int) -> list[Path]:
    """Ten batches in each of two segments."""
    (root / "t-0").mkdir(parents=True)
    logs = [root / "t-0" / segment_file(base, LOG) for base in (0, 10)]
    for number, log in enumerate(logs):
        log.write_bytes(b"".join(BATCHES[10 * number : 10 * number + 10]))
    write_checkpoint(root / RECOVERY_POINT_CHECKPOINT, {"t-0": recovery_point})
    return logs


def test_synced_bytes_end_where_the_first_batch_above_the_recovery_point_begins(
    tmp_path: Path,
) -> None:
    first, second = _log_dir(tmp_path, 0)
    assert [synced_bytes(first, point) for point in (0, 1, 7)] == [
        sum(map(len, BATCHES[:n])) for n in (0, 1, 7)
    ]
    assert synced_bytes(first, 10) == synced_bytes(first, 99) == first.stat().st_size
    assert synced_bytes(second, 10) == 0


def test_only_bytes_above_the_recovery_point_are_torn(tmp_path: Path) -> None:
    torn = set()
    for seed in range(60):
        root = tmp_path / str(seed)
        logs = _log_dir(root, 4)
        before = [log.read_bytes() for log in logs]
        done = lose_page_cache(root, random.Random(seed))
        kept = len(b"".join(BATCHES[:4]))
        assert logs[0].read_bytes()[:kept] == before[0][:kept]
        changed = [
            log.name for log, was in zip(logs, before, strict=True) if log.read_bytes() != was
        ]
        assert len(changed) <= len(done)
        torn |= set(changed)
    assert len(torn) == 2, "both segments are torn now and then"
    for log in _log_dir(tmp_path / "synced", 20):
        assert lose_page_cache(tmp_path / "synced", random.Random(1)) == []
        assert log.stat().st_size


def test_page_counts_its_kills(tmp_path: Path) -> None:
    good = Row(
        1, 0.5, 100, synced=True, recovery_points=3, torn_files=4, beyond_kafka=1, same=(True,) * 4
    )
    bad = Row(
        2,
        1.5,
        0,
        synced=False,
        recovery_points=0,
        torn_files=0,
        beyond_kafka=0,
        same=(True, False, True, True),
    )
    for row in (good, bad, good):
        assert read_row(str(row)) == row
        add_to(tmp_path / "page.md", row)
    text = (tmp_path / "page.md").read_text()
    assert "| of 3 kills |" in text
    assert [
        f"| {what} | {3 - (number == 1)} |" in text for number, what in enumerate(COMPARISONS)
    ] == [True] * 4
    assert "do not count: 2." in text
