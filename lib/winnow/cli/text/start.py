"""What happens if a broker starts now, as a section of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from winnow.cli.out import Line, Styled, item, section
from winnow.start.values import BrokerStart
from winnow.start.words import start_lines, verdict
from winnow.words import printable

MOST = 10
"""Reasons that are shown. --json has all."""


def start_section(
    starts: Sequence[BrokerStart], *, title: str = "If the broker starts now"
) -> Iterator[Line]:
    """Yield the verdict on each broker, with the reasons for all but a start at once."""
    yield from section(title, _lines(starts))


def harmful_starts(starts: Sequence[BrokerStart], *, title: str) -> Iterator[Line]:
    """As `start_section`, but only brokers whose start does harm."""
    yield from start_section([start for start in starts if start.is_harmful], title=title)


def shown_reasons(starts: Sequence[BrokerStart]) -> set[str]:
    """Return the reasons that `start_section` shows."""
    return {reason for start in starts for reason in list(start_lines(start))[:MOST]}


def _lines(starts: Sequence[BrokerStart]) -> Iterator[Line]:
    for start in starts:
        yield Styled(f"  {verdict(start)}", "" if start.is_safe else "bold red")
        reasons = list(start_lines(start))
        yield from (item(printable(reason)) for reason in reasons[:MOST])
        if len(reasons) > MOST:
            yield Styled(f"  and {len(reasons) - MOST:,} more; --json has all", "dim")
