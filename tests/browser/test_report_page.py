"""The report in a real browser: nothing sticks out, nothing is fetched, nothing complains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import HOW, find_chromium, screenshot, show
from tests.unit.report.runs import everything, many
from winnow.clean.result import RunResult
from winnow.report import render

pytestmark = pytest.mark.skipif(find_chromium() is None, reason=HOW)

PHONE, DESK = 390, 1200
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("run", [everything(), many(500)], ids=["everything", "many"])
def test_nothing_sticks_out(tmp_path: Path, run: RunResult, width: int) -> None:
    shown = show(render(run).replace("<details>", "<details open>"), tmp_path, width=width)
    assert (shown.width, shown.scroll_width, shown.wide) == (width, width, [])
    assert (shown.fetched, shown.console) == ([], [])
    assert "Each partition and its rule" in shown.text


def test_the_size_of_what_was_freed_is_read_first(tmp_path: Path) -> None:
    lines = [
        line for line in show(render(everything()), tmp_path, width=PHONE).text.splitlines() if line
    ]
    assert lines[0].startswith("Winnow, clean at 2026-11-21T22:26:40Z")
    assert lines[1] == "6.0 MiB"


def test_it_is_dark_where_the_reader_wants_it_dark(tmp_path: Path) -> None:
    page = render(everything())
    assert show(page, tmp_path, width=DESK).background == "rgb(246, 247, 249)"
    assert show(page, tmp_path, width=DESK, dark=True).background == "rgb(16, 21, 27)"


def test_the_watch_sees_what_sticks_out_and_what_is_fetched(tmp_path: Path) -> None:
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


def test_a_screenshot_can_be_taken(tmp_path: Path) -> None:
    image = tmp_path / "page.png"
    screenshot(render(everything()), image, width=PHONE, height=844)
    assert image.read_bytes().startswith(PNG)
