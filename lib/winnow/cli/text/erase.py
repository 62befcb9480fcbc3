"""An erasure as text: what was erased, what is left and where, and whether it is proven."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from winnow.cli.out import Line, Row, aligned, by_the_rules, item, section
from winnow.cli.text.start import harmful_starts
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure, PatternSearch
from winnow.words import counted, first_few, printable, size

MOST = 50
"""Partitions with a pattern that are shown. --json has all."""
_FEW = 3
"""Partitions that were not searched and are named in the last lines."""


def page(result: EraseResult, replicas: Iterable[Line] = ()) -> Iterator[Line]:
    """Yield the lines. Partitions without matches are only counted. `replicas`: the lines on the
    replicas of other brokers.
    """
    shown = [
        p
        for p in result.partitions
        if p.troubled
        or p.copies
        or p.remote
        or ((p.closed or Amount()) + p.left).records
        or p.disproven
    ]
    if shown:
        erased = "to erase" if result.dry_run else "erased"
        yield from aligned([_row(p, erased) for p in shown], "partition")
        yield ""
    for partition in shown:
        name = printable(f"{partition.topic}-{partition.partition}")
        yield from (f"{name}: {remark}" for remark in _remarks(partition))
    for directory in result.not_searched:
        yield f"not searched: {printable(directory)}"
    yield from _summary(result)
    if result.patterns is not None:
        yield from section("Search in keys, values and headers", _patterns(result.patterns))
    yield from replicas
    yield from harmful_starts(result.starts, title="Do not start the broker now")


def _row(p: PartitionErasure, erased: str) -> Row:
    amount = p.closed if p.erased is None else p.erased
    return {
        "partition": printable(f"{p.topic}-{p.partition}"),
        erased: "" if amount is None else str(amount.records),
        "segments": ""
        if p.segments_with_matches is None
        else f"{p.segments_with_matches} of {p.segments}",
        "before": "" if p.bytes_before is None else size(p.bytes_before),
        "after": "" if p.bytes_after is None else size(p.bytes_after),
        "left": "" if p.active is None else str(p.left.records),
    }


def _remarks(p: PartitionErasure) -> Iterator[str]:
    if p.error is not None or p.why_left_alone is not None:
        yield printable(p.error or p.why_left_alone or "")
    if p.active is not None and p.active.records:
        yield (
            f"{counted(p.active.records, 'record')} in the active segment: let the broker roll it "
            "(segment.ms), stop the broker and erase again"
        )
    if p.above_high_watermark is not None and p.above_high_watermark.records:
        where = "in segments that are not entirely below the high watermark"
        yield f"{counted(p.above_high_watermark.records, 'record')} {where}"
    if p.copies:
        yield f"older copies of records, not searched: {', '.join(map(printable, p.copies))}"
    for run_id in map(printable, p.closed_undos):
        removes = f"`recover --purge {run_id}` removes what it kept"
        yield f"run {run_id} can't be undone after this erasure; {removes}"
    if p.remote:
        yield "remote.storage.enable: remote storage may hold segments too; it was not searched"
    if p.disproven and p.proof is not None:
        what = [counted(p.proof.reached, "record")] * bool(p.proof.reached)
        what += [f"{counted(p.proof.problems, 'place')} that can't be read"] * bool(
            p.proof.problems
        )
        yield f"NOT PROVEN: the second reading found {' and '.join(what)}"


def _patterns(search: PatternSearch) -> Iterator[Line]:
    total, what = search.total, counted(search.patterns, "pattern")
    one_of = "the pattern" if search.patterns == 1 else f"one of {what}"
    yield item(
        f"{counted(total.records, 'record')} of {total.searched_records:,} with other keys "
        f"{'holds' if total.records == 1 else 'hold'} {one_of}; {size(total.searched_bytes)} were "
        "searched, decompressed. They are only counted, not erased"
    )
    for partition in search.unsearched:
        why = f": {partition.error}" if partition.error else ""
        yield item(f"not searched: {printable(f'{partition.name}{why}')}")
    hits = [
        {
            "partition": printable(partition.name),
            "records": str(matches.records),
            "in keys": str(matches.in_keys),
            "in values": str(matches.in_values),
            "in headers": str(matches.in_headers),
        }
        for partition in search.partitions
        if (matches := partition.matches) is not None and matches.records
    ]
    if hits:
        yield ""
        yield from aligned(hits[:MOST], "partition")
    if len(hits) > MOST:
        yield f"and {counted(len(hits) - MOST, 'partition')} more; --json has all"


def _summary(result: EraseResult) -> Iterator[str]:
    yield by_the_rules(result.kafka)
    yield from _found(result)
    if result.dry_run:
        found = sum((p.closed or Amount() for p in result.partitions), Amount())
        yield (
            f"{counted(found.records, 'record')} to erase, {size(found.bytes)} decompressed. "
            "Nothing was changed."
        )
        return
    erased = sum((p.erased or Amount() for p in result.partitions), Amount())
    left = sum((p.left for p in result.partitions), Amount())
    yield f"{counted(erased.records, 'record')} erased, {size(erased.bytes)} decompressed"
    if result.proven:
        where = " on this disk" if any(p.remote for p in result.partitions) else ""
        yield (
            "Proven: a second reading, with other code, found none of the keys in rewritable "
            f"segments{where}"
        )
    elif result.why_not_proven is not None:
        yield f"NOT PROVEN: {result.why_not_proven}"
    if result.hash_key is not None and result.ledger is not None:
        yield (
            f"Recorded in {printable(result.ledger or '')}, with hashes of the keys under this "
            "hash key; keep it:"
        )
        yield f"  {result.hash_key}"
    if result.certificate is not None:
        yield f"Certificate: {printable(result.certificate)}"
        yield f"  SHA-256 {result.certificate_sha256}"
    if left.records:
        yield f"{counted(left.records, 'record')} left in other segments: see above"


def _found(result: EraseResult) -> Iterator[str]:
    """Yield how many keys were found, and how many partitions were searched and were not."""
    found = f"{counted(result.keys, 'key')}, {result.keys_found} of them found"
    every, missed = len(result.partitions), result.unsearched
    if not missed:
        yield f"{found}; {counted(every, 'partition')} searched"
        return
    yield found
    names = first_few([f"{p.topic}-{p.partition} ({size(p.bytes_before)})" for p in missed], _FEW)
    were = "was" if len(missed) == 1 else "were"
    yield (
        f"searched {every - len(missed)} of {counted(every, 'partition')}; {printable(names)} "
        f"{were} NOT searched and may hold {'the key' if result.keys == 1 else 'the keys'}"
    )
