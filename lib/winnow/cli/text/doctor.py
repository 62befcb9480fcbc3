"""The lines of the doctor's page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from winnow.cleaning.result import TOMBSTONE_AGES
from winnow.cli.out import wrapped
from winnow.verbs.doctor.values import Amount
from winnow.words import counted, printable, size

if TYPE_CHECKING:
    from winnow.verbs.doctor.values import Census, Diagnosis

MOST = 10
"""Lines in each list on the page. --json has all."""


def listed(title: str, lines: Sequence[str], width: int) -> Iterator[Text]:
    """Yield the title and the lines, wrapped to `width`; nothing if there are no lines."""
    if not lines:
        return
    yield plain("")
    yield bold(title)
    yield from (wrapped(line, width, indent=2, hang=2) for line in lines[:MOST])
    if len(lines) > MOST:
        yield plain(f"  and {len(lines) - MOST:,} more; --json has all", style="dim")


def bold(text: str) -> Text:
    return plain(text, style="bold")


def plain(text: str, *, style: str = "") -> Text:
    return Text(printable(text), style=style)


def census_lines(found: Diagnosis, width: int) -> Iterator[Text]:
    """Yield what `doctor --deep` found: data without a key, and tombstones. Nothing if no records
    were read.
    """
    if found.census is None:
        return
    census = [one for one in found.census if one.error is None]
    keyless = sorted(
        (one for one in census if one.keyless.records), key=lambda one: -one.keyless.bytes
    )
    yield from listed(
        "Records without a key, which compaction drops (S5.5)",
        [f"{_name(one)}  {_amount(one.keyless)}" for one in keyless],
        width,
    )
    if not keyless:
        yield plain("")
        yield plain(
            f"No record without a key in {counted(len(census), 'partition')} of compacted topics"
        )
    yield from _tombstones(census, width)
    yield from listed(
        "Could not be read",
        [f"{_name(one)}: {one.error}" for one in found.census if one.error],
        width,
    )


def _tombstones(census: list[Census], width: int) -> Iterator[Text]:
    ages = [_sum(column) for column in zip(*(one.tombstones for one in census), strict=True)]
    yield from listed(
        "Tombstones by age",
        [
            f"{age}  {_amount(many)}"
            for age, many in zip(TOMBSTONE_AGES, ages, strict=False)
            if many.records
        ],
        width,
    )
    horizons = (
        (
            _sum(one.horizon_come for one in census),
            "their delete horizon has passed: the next compaction drops them",
        ),
        (_sum(one.horizon_to_come for one in census), "their delete horizon is in the future"),
        (
            _sum(one.no_horizon for one in census),
            "no delete horizon yet: the next compaction sets it",
        ),
    )
    yield from listed(
        "Of these",
        [f"{_amount(many)}: {words}" for many, words in horizons if many.records],
        width,
    )
    partitions = sorted(census, key=lambda one: -_sum(one.tombstones).bytes)
    yield from listed(
        "Tombstones by partition",
        [
            f"{_name(one)}  {_amount(_sum(one.tombstones))}"
            for one in partitions
            if _sum(one.tombstones).records
        ],
        width,
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount(0, 0))


def _amount(many: Amount) -> str:
    return f"{counted(many.records, 'record')}, {size(many.bytes)}"


def _name(one: Census) -> str:
    return f"{one.topic}-{one.partition}"
