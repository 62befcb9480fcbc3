"""A search for erased keys as text: how many records have one, and where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from winnow.cli.out import aligned, picked
from winnow.words import counted, printable

if TYPE_CHECKING:
    from winnow.verbs.verify.key_hashes import KeyHashResult

MOST = 50
"""Segments that get their own lines. --json has all."""


def to_json(result: KeyHashResult) -> dict[str, Any]:
    return picked(
        result,
        *("status", "run_id", "keys", "topics", "records", "found", "problems"),
        *("segments", "not_searched", "notes"),
    )


def page(result: KeyHashResult, _width: int) -> Iterator[str]:
    hit = [segment for segment in result.segments if segment.found or segment.problems]
    some = counted(result.found, "record") if result.found else "no record"
    where = f", in {sum(bool(s.found) for s in hit)} of" if result.found else ", in"
    yield (
        f"{some} of {result.records} with an erased key{where} "
        f"{counted(len(result.segments), 'segment')}"
    )
    if result.problems:
        yield f"{counted(result.problems, 'place')} can't be read: run `verify` without --key-hash"
    for directory in result.not_searched:
        yield f"not searched: {directory}"
    if hit:
        yield ""
        rows = [
            {
                "partition": printable(f"{s.topic}-{s.partition}"),
                "segment": printable(s.segment),
                "records": str(s.records),
                "with a key": str(s.found),
                "unreadable": str(s.problems),
            }
            for s in hit[:MOST]
        ]
        yield from aligned(rows, "partition", "segment")
        if len(hit) > MOST:
            yield f"and {counted(len(hit) - MOST, 'segment')} more; --json has all"
        yield ""
    yield (
        f"searched for {counted(result.keys, 'key')} of erasure {result.run_id} in "
        f"{counted(len(result.topics), 'topic')}"
    )
