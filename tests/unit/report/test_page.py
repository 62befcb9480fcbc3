import re

import pytest

from tests.unit.cli.results import idle, partition, run_of
from tests.unit.report.runs import HOSTILE, everything, many
from winnow.cleaning.result import RunResult
from winnow.report.write import render


def text_of(page: str) -> str:
    body = page.partition("<body>")[2]
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_freed_bytes_are_the_first_figure() -> None:
    figures = re.findall(
        r'<p class="figure">(.*?)</p>', render(run_of(partition("orders"), idle("quiet")))
    )
    assert figures == ["1.0 MiB"]
    assert "freed: 25 % of the logs before: 4.0 MiB after: 3.0 MiB" in text_of(
        render(run_of(partition("a"), idle("b")))
    )


def test_plan_does_not_promise_unknown_bytes() -> None:
    told = text_of(
        render(
            run_of(
                partition("a", bytes_after=None, segments_after=None), partition("b"), verb="plan"
            )
        )
    )
    assert "1.0 MiB would be freed by deleting. Compaction would free a part of about" in told
    assert "freed:" not in told


def test_kept_or_quarantined_bytes_are_not_called_freed() -> None:
    told = text_of(render(everything()))
    assert "No space is free yet" in told
    assert "recover --purge 20261121T000000Z-0" in told
    assert "4.0 KiB of damaged batches was moved out of the log" in told


def test_page_has_all_parts() -> None:
    told = text_of(render(everything()))
    for part in (
        "Left alone, and why",
        "By topic",
        "Fate of segments, by age",
        "Segments of the partitions that freed most",
        "Dirty ratio, before and after",
        "Records removed, and why",
        "Tombstones kept, by age",
        "Slowest partitions",
        "Who fills Kafka's own topics",
        "Each partition and its rule",
        "Notes",
    ):
        assert part in told
    assert "1 min 1 s" in told
    assert "7 to 30 days 1,200" in told
    assert "superseded, or without a key 5,432" in told
    assert "dirty ratio 0.75 is above min.cleanable.dirty.ratio 0.5" in told


@pytest.mark.parametrize(
    "run", [run_of(), run_of(idle("a")), run_of(partition("a", bytes_before=None, bytes_after=0))]
)
def test_small_run_has_a_page(run: RunResult) -> None:
    assert "0 B" in text_of(render(run))


def test_hostile_names_and_reasons_are_escaped() -> None:
    page = render(everything())
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&#34;&#39;\\u202e\\x1b[31m" in page
    assert HOSTILE[-6] not in page


def test_page_loads_no_external_resources() -> None:
    page = render(everything())
    assert re.findall(r"https?:|//|url\(|@import|\bsrc=", page) == []
    assert re.findall(r'href="([^"]*)"', page) == ["data:,"]


def test_page_of_twenty_thousand_partitions_is_small() -> None:
    page = render(many(20_000))
    assert len(page) < 250_000
    told = text_of(page)
    assert "20,000" in told
    assert "380 other topics" in told
    assert "and 1,970 reasons more" in told
