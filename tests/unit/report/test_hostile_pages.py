"""Whatever text comes from log directories, pages have the elements of their template alone."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.cli import hostile as values
from winnow.api.result import Result
from winnow.cleaning.result import RunResult
from winnow.logdir.meta import MetaProperties
from winnow.logdir.survey import Checkpoints, LogDir
from winnow.report.certificate import Circumstances, write_certificate
from winnow.report.write import render
from winnow.verbs.erase.key_hashes import KeyHashes
from winnow.verbs.erase.values import EraseResult

TEXTS = {
    "element": "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "end of an attribute": "\"><svg onload='alert(1)'>",
    "end of another": "'><a href=javascript:alert(1)>x</a>",
    "end of the style": "</style><script>alert(1)</script><style>",
    "comment": "<!--",
    "template": "{{ 7 * 191 }}{% for x in y %}${7 * 191}",
    "URL with markup for a password": 'https://u:<script>@h/"><b>?token=<script>',
    "terminal": "\x1b]0;title\x07\u202e\x9b2J",
    "surrogate": "\udcff",
}


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, ...]] = set()
        self.comments: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, *(name for name, _ in attrs)))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def pages(place: Path) -> dict[str, str]:
    """All kinds of pages, of results in which every text is `values.OSC`."""
    run: Any = values.hostile(RunResult)
    run = replace(run, partitions=tuple(replace(p, tombstones=()) for p in run.partitions))
    directory = LogDir(
        path=values.OSC,
        meta=MetaProperties(version=1, node_id=3, cluster_id=values.OSC),
        clean_shutdown=True,
        partitions=(),
        skipped=(),
        checkpoints=Checkpoints(),
        error=None,
    )
    at = Circumstances(values.OSC, values.OSC, 1, 2, [directory])
    erased: Any = values.hostile(EraseResult, run_id=f"of-{len(values.OSC)}")
    hashes = KeyHashes("00", ["00"], "00")
    done = write_certificate(str(place), erased, hashes, at)
    return {
        "report": render(run),
        "certificate": Path(done.certificate or "").with_suffix(".html").read_text("utf-8"),
        "notebook": Result(run, cast("Any", None))._repr_html_(),
    }


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_adds_an_element(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "OSC", "plain")
    usual = pages(tmp_path)
    monkeypatch.setattr(values, "OSC", TEXTS[name])
    for kind, page in pages(tmp_path).items():
        assert Elements(page).found == Elements(usual[kind]).found, kind
        assert Elements(page).comments == [], kind
        assert "1337" not in page, "a template in a text is no template"
        assert all(c.isprintable() or c == "\n" for c in page), kind
