"""How fast a disk fills, from what earlier runs wrote into the file of --metrics."""

from __future__ import annotations

import re
import time
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


@pytest.mark.parametrize(
    ("used", "at"),
    [
        *[(used, "1") for used in ("NaN", "+Inf", "1e300", "-1")],
        *[("1", at) for at in ("NaN", "-Inf", "-1e300", "1e300", "1e18")],
    ],
)
def test_values_that_no_run_wrote_are_unknown(tmp_path: Path, used: str, at: str) -> None:
    """The directory of the file may be that of another user."""
    file = tmp_path / "w.prom"
    assert look(file, 100, NOW) == ()
    text = file.read_text()
    for name, value in (("used_bytes", used), ("unixtime", at)):
        text = re.sub(rf"(winnow_doctor_earlier_{name}{{[^}}]*}}) .*", rf"\1 {value}", text)
    file.write_text(text)
    assert look(file, 200, NOW + DAY_MS) == ()
    [growth] = look(file, 300, NOW + 2 * DAY_MS)
    assert growth == Growth("/logs", NOW + DAY_MS, 100, 100.0, 7.0)


@pytest.mark.parametrize(
    "text",
    [
        "# TYPE \u2028 histogram\nc 1\n# UNIT d seconds\n",  # an IndexError in the library
        "a{" + ",".join(f'l{n}="x"' for n in range(200_000)) + "} 1\n",  # took 27 s
        'a{l="' + '\\"' * 500_000 + '"} 1\n',
    ],
    ids=["an error in the parser", "many labels", "many quotes"],
)
def test_file_that_is_not_of_metrics_is_replaced_at_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "w.prom"
    file.write_text(text, encoding="utf-8")
    begun = time.process_time()
    assert look(file, 100, NOW) == ()
    assert time.process_time() - begun < 1
    assert "winnow_doctor_earlier_used_bytes" in file.read_text()
