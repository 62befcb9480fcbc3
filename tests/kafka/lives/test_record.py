"""The page on versions follows from the results of all runs."""

from __future__ import annotations

from tests.kafka.lives.outcome import Outcome
from tests.kafka.lives.record import PAGE, RESULTS, page, row


def test_a_version_has_the_lives_of_all_its_runs() -> None:
    runs = [(1200, "3.9.2"), (34, "4.4.0"), (5, "3.9.2")]
    results = "".join(
        row(Outcome(lives=lives, passes=5 * lives), version, "--lives 1", minutes=1)
        for lives, version in runs
    )
    rows = [line.split("|")[1:5] for line in page(results).splitlines() if "| 0 |" in line]
    assert rows == [[" 3.9.2 ", " 1,205 ", " 6,025 ", " 0 "], [" 4.4.0 ", " 34 ", " 170 ", " 0 "]]


def test_the_page_is_that_of_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(RESULTS.read_text(encoding="utf-8"))
