from pathlib import Path

from winnow.runtime.ticks import TickSheet, tick


def test_repeated_ticks_count_once() -> None:
    with TickSheet([5, 7, 0, 11]) as sheet:
        assert (sheet.total, sheet.done()) == (23, 0)
        tick(sheet.path, 3)
        tick(sheet.path, 0)
        tick(sheet.path, 3)
        assert sheet.done() == 16
        for piece in range(4):
            tick(sheet.path, piece)
        assert sheet.done() == 23
    assert not Path(sheet.path).exists()


def test_late_tick_creates_no_file() -> None:
    with TickSheet([1]) as sheet:
        pass
    tick(sheet.path, 0)
    assert not Path(sheet.path).exists()
    assert sheet.done() == 0


def test_sheet_without_work_has_total_zero() -> None:
    with TickSheet([]) as sheet:
        assert (sheet.total, sheet.done()) == (0, 0)
