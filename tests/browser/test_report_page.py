"""The report in a real browser: it fits the screen, fetches nothing and logs no errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import HOW, find_chromium, screenshot, show
from tests.unit.report.runs import everything, many
from winnow.cleaning.result import RunResult
from winnow.report.write import render

pytestmark = pytest.mark.skipif(find_chromium() is None, reason=HOW)

PHONE, DESK = 390, 1200
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("run", [everything(), many(500)], ids=["everything", "many"])
def test_page_fits_the_screen_and_fetches_nothing(
    tmp_path: Path, run: RunResult, width: int
) -> None:
    shown = show(render(run).replace("<details>", "<details open>"), tmp_path, width=width)
    assert (shown.width, shown.scroll_width, shown.wide) == (width, width, [])
    assert (shown.fetched, shown.console) == ([], [])
    assert "Each partition and its rule" in shown.text


def test_freed_bytes_are_shown_first(tmp_path: Path) -> None:
    lines = [
        line for line in show(render(everything()), tmp_path, width=PHONE).text.splitlines() if line
    ]
    assert lines[0].startswith("Winnow, clean at 2026-11-21T22:26:40Z")
    assert lines[1] == "6.0 MiB"


def test_dark_mode_follows_the_browser_setting(tmp_path: Path) -> None:
    page = render(everything())
    assert show(page, tmp_path, width=DESK).background == "rgb(246, 247, 249)"
    assert show(page, tmp_path, width=DESK, dark=True).background == "rgb(16, 21, 27)"


def test_browser_check_detects_overflow_fetches_and_console_errors(tmp_path: Path) -> None:
    page = render(everything()).replace(
        "<footer>",
        '<div style="width:600px">wide</div><img src="http://example.test/x.png" alt="">'
        "<script>console.error('complaint')</script><footer>",
    )
    shown = show(page, tmp_path, width=PHONE)
    assert shown.scroll_width > PHONE
    assert len(shown.wide) == 1
    assert shown.fetched == ["http://example.test/x.png"]
    assert len(shown.console) == 1
    assert "complaint" in shown.console[0]


def test_screenshot_is_a_png(tmp_path: Path) -> None:
    image = tmp_path / "page.png"
    screenshot(render(everything()), image, width=PHONE, height=844)
    assert image.read_bytes().startswith(PNG)
