"""How fast a disk fills, from what earlier runs wrote into the file of --metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.diagnoses import diagnosis
from winnow.clock import DAY_MS
from winnow.metrics.doctor import gauges_of
from winnow.metrics.growth import Growth, earlier_sizes, growth_of
from winnow.metrics.prometheus import read_metrics, tell_prometheus
from winnow.verbs.doctor.values import Diagnosis, Disk

NOW = 1_795_300_000_000
HOUR = DAY_MS // 24
TOTAL = 1000


def found(used: int, now: int) -> Diagnosis:
    disk = Disk(
        log_dir="/logs",
        log_bytes=used,
        free_bytes=TOTAL - used,
        total_bytes=TOTAL,
        free_files=None,
        read_only=False,
        clean_shutdown=True,
        cleaner_checkpoint_ms=None,
    )
    return diagnosis(now, disk)


def look(file: Path, used: int, now: int) -> tuple[Growth, ...]:
    """One run of doctor."""
    diagnosis, earlier = found(used, now), earlier_sizes(read_metrics(str(file)))
    growth = growth_of(diagnosis.disks, earlier, now=now)
    tell_prometheus(gauges_of(diagnosis, growth, earlier, ended=now), str(file))
    return growth


def test_growth_is_unknown_at_first_and_then_that_since_an_earlier_run(tmp_path: Path) -> None:
    file = tmp_path / "w.prom"
    assert look(file, 100, NOW) == ()
    assert look(file, 150, NOW + HOUR // 2) == ()
    assert "days_until_full{" not in file.read_text()
    [growth] = look(file, 200, NOW + DAY_MS // 2)
    assert growth == Growth("/logs", NOW, 100, 200.0, 4.0)
    assert 'winnow_doctor_days_until_full{log_dir="/logs"} 4.0' in file.read_text()


@pytest.mark.parametrize("every", [HOUR // 6, 5 * HOUR, DAY_MS])
def test_growth_is_of_one_to_two_days_however_often_doctor_runs(tmp_path: Path, every: int) -> None:
    file, now, used = tmp_path / "w.prom", NOW, 0.0
    while now < NOW + 5 * DAY_MS:
        now, used = now + every, used + 100 * every / DAY_MS
        last = look(file, round(used), now)
    [growth] = last
    assert DAY_MS <= now - growth.since <= 2 * DAY_MS + every
    assert growth.bytes_per_day == pytest.approx(100, rel=0.02)


def test_disk_that_shrinks_is_never_full(tmp_path: Path) -> None:
    file = tmp_path / "w.prom"
    look(file, 500, NOW)
    [growth] = look(file, 400, NOW + DAY_MS)
    assert (growth.bytes, growth.days_until_full) == (-100, None)


def test_clock_that_was_set_back_gives_no_growth(tmp_path: Path) -> None:
    file = tmp_path / "w.prom"
    look(file, 100, NOW)
    assert look(file, 200, NOW - DAY_MS) == ()
    [growth] = look(file, 300, NOW)
    assert growth.bytes == 100
