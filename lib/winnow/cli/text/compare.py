"""A comparison as text: a line for each partition that differs, and the place in both replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from winnow.cli.out import Line, Paragraph, Row, Styled, aligned, fields_of
from winnow.words import counted, printable

if TYPE_CHECKING:
    from winnow.verbs.compare.values import CompareResult, Comparison


def page(result: CompareResult, _width: int) -> Iterator[Line]:
    different = [one for one in result.comparisons if one.first is not None]
    yield _title(result, len(different))
    yield from _table(different)
    for kind in dict.fromkeys(one.first.kind for one in different if one.first is not None):
        yield from ("", f"  {kind}", Paragraph(kind.meaning))
    for one in result.comparisons:
        name = f"{one.topic}-{one.partition}"
        if one.why_not is not None:
            yield Paragraph(f"{name} not compared: {one.why_not}")
        if one.undecided:
            yield Paragraph(
                f"{name}: {counted(one.undecided, 'key')} can't be compared: one replica was "
                f"cleaned beyond offset {one.end}, where another one ends"
            )
    yield from (Paragraph(f"Not compared: {printable(one)}") for one in result.not_compared)
    compared = counted(sum(one.end is not None for one in result.comparisons), "partition")
    records = sum(one.records for one in result.comparisons)
    yield f"Compared: {compared}, {records} records in all replicas"


def to_json(result: CompareResult) -> dict[str, Any]:
    partitions = [_partition(one) for one in result.comparisons]
    return {
        "status": result.status,
        "partitions": partitions,
        "not_compared": result.not_compared,
        "notes": result.notes,
    }


def _partition(one: Comparison) -> dict[str, Any]:
    first = one.first and {**fields_of(one.first), "meaning": one.first.kind.meaning}
    return {**fields_of(one), "first": first}


def _title(result: CompareResult, different: int) -> str:
    if not result.comparisons:
        return "No partition is in two of the log directories."
    compared = sum(one.why_not is None for one in result.comparisons)
    if not compared:
        return f"Nothing of {counted(len(result.comparisons), 'partition')} could be compared."
    total = counted(compared, "partition")
    return f"{different} of {total} differ" if different else f"The replicas of {total} agree."


def _table(different: Sequence[Comparison]) -> Iterator[Line]:
    if not different:
        return
    head, *lines = aligned([*map(_row, different)], "partition", "kind", "compared")
    yield Styled(head, "bold")
    for one, line in zip(different, lines, strict=True):
        yield Styled(line, "red")
        if one.first is not None:
            yield Paragraph(printable(one.first.message))
            for place in one.first.places:
                at = "" if place.position is None else f" at byte {place.position}"
                yield f"      {place.log_dir}/{place.file}{at}"


def _row(one: Comparison) -> Row:
    first = one.first
    return {
        "partition": f"{one.topic}-{one.partition}",
        "kind": "" if first is None else first.kind,
        "offset": "" if first is None or first.offset is None else str(first.offset),
        "differences": str(one.differences),
        "compared": "" if one.end is None else f"offsets {one.start} to {one.end - 1}",
    }
