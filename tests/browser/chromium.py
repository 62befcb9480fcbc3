"""Render a page in a real browser: headless Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = "no Chromium on the PATH (Debian: apt install chromium)"

OPTIONS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # What a page asks for is not to be found, wherever this runs.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
)
WINDOW = 1200
"""Wider than any page that is looked at; Chromium makes no window narrower than 500."""

FRAME = """<!DOCTYPE html><html><body style="margin:0">
<iframe id="frame" style="border:0;display:block"
  width="{width}" height="{height}" srcdoc="{page}"></iframe>
<pre id="found"></pre>
<script>
addEventListener("load", () => {{
  const page = document.getElementById("frame").contentDocument;
  const wide = [...page.querySelectorAll("body *")]
    .filter((element) => element.getBoundingClientRect().right > {width} + 0.5)
    .map((element) => element.tagName + "." + element.className);
  document.getElementById("found").textContent = JSON.stringify({{
    width: page.documentElement.clientWidth,
    scroll_width: page.documentElement.scrollWidth,
    height: page.documentElement.scrollHeight,
    wide: wide,
    text: page.body.innerText,
    fetched: document.getElementById("frame").contentWindow.performance
        .getEntriesByType("resource").map((e) => e.name),
    background: getComputedStyle(page.body).backgroundColor,
  }});
}});
</script></body></html>
"""


@dataclass(frozen=True)
class Shown:
    """In CSS pixels. `wide`: elements that reach beyond the right edge. `text`: what a reader
    sees.
    """

    width: int
    scroll_width: int
    height: int
    wide: list[str]
    text: str
    background: str
    fetched: list[str]
    console: list[str]


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def show(page: str, directory: Path, *, width: int, dark: bool = False) -> Shown:
    """Lays the page out at that width."""
    options = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    told = _run(_framed(page, directory, width, 800), directory, *options, "--dump-dom")
    found = re.search(r'<pre id="found">(.*?)</pre>', told.stdout, re.DOTALL)
    assert found is not None, told.stderr
    console = [line for line in told.stderr.splitlines() if ":CONSOLE" in line]
    return Shown(**json.loads(unescape(found[1])), console=console)


def screenshot(page: str, image: Path, *, width: int, height: int) -> None:
    """A PNG of the top of the page."""
    framed = _framed(page, image.parent, width, height)
    _run(framed, image.parent, f"--window-size={max(width, 500)},{height}", f"--screenshot={image}")


def pages_on_paper(page: str, directory: Path) -> int:
    """How many sheets the browser prints."""
    file, paper = directory / "page.html", directory / "page.pdf"
    file.write_text(page, encoding="utf-8")
    _run(file, directory, f"--print-to-pdf={paper}")
    return len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))


def _framed(page: str, directory: Path, width: int, height: int) -> Path:
    frame = directory / "frame.html"
    frame.write_text(FRAME.format(width=width, height=height, page=escape(page)), encoding="utf-8")
    return frame


def _run(file: Path, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    chromium = find_chromium()
    assert chromium is not None
    profile = directory / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    return subprocess.run(
        [
            chromium,
            *OPTIONS,
            f"--user-data-dir={profile}",
            f"--window-size={WINDOW},800",
            *options,
            file.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"HOME": str(directory)},
    )
