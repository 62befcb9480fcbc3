"""The documentation as a site: every page is in it, and no link of any page is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

from tests.pages import DOCS, ROOT, blocks, commands


def test_site_has_every_page_and_no_broken_link(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    built = {str(page.relative_to(tmp_path).with_suffix("")) for page in tmp_path.rglob("*.html")}
    assert {page.replace("README", "index") for page in pages} - built == set()
    assert list(broken_links(tmp_path)) == []


def broken_links(site: Path) -> Iterator[str]:
    """Yield each link that names a missing file or place. That of errors has absolute links."""
    pages = {page: page.read_text("utf-8") for page in site.rglob("*.html")}
    places = {
        page: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for page, text in pages.items()
    }
    for page, text in pages.items():
        if page.name == "404.html":
            continue
        for link in sorted(set(re.findall(r'\b(?:href|src)="([^"]+)"', text))):
            path, _, place = unquote(unescape(link)).partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"https?://", link):
                continue
            if not target.is_file() or (place and place not in places.get(target, {place})):
                yield f"{page.relative_to(site)}: {link}"


def test_proofs_named_in_safety_exist() -> None:
    """They are slow tests. The page gives the command that starts each."""
    lines = [
        command.line.partition("#")[0]
        for block in blocks(DOCS / "safety.md")
        for command in commands(block)
    ]
    files = [word for line in lines for word in line.split()[1:] if "/" in word]
    modules = [line.split()[2] for line in lines if " -m " in line]
    assert lines
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert [
        name
        for name in modules
        if not any((ROOT / name.replace(".", "/")).parent.glob(f"{name.split('.')[-1]}*"))
    ] == []
