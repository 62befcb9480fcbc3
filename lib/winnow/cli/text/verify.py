"""A sweep as text: where, what, and what it means, once for each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from winnow.cli.out import Line, Paragraph, Row, Styled, aligned, fields_of, picked, section
from winnow.cli.text.start import harmful_starts, start_section
from winnow.start.words import starts_to_json
from winnow.words import counted, first_few, printable, size

if TYPE_CHECKING:
    from winnow.verbs.verify.findings import Finding
    from winnow.verbs.verify.kinds import Kind
    from winnow.verbs.verify.verify import SweepResult

MOST = 20
"""Findings of one kind in one partition that get their own lines. --json has all."""
_FEW = 5
"""Partitions with the same meaning of a finding that are named."""
MOST_OF_KIND = 40
"""Findings of one kind that get their own lines."""


def page(result: SweepResult, width: int) -> Iterator[Line]:
    yield _title(result)
    if result.findings:
        yield from _table(result.findings, width, several=result.log_dirs > 1)
        yield from section("What it means", _meanings(result.findings))
    unknown = [start for start in result.starts if not start.is_safe and not start.is_harmful]
    yield from harmful_starts(result.starts, title="Do not start the broker now")
    yield from start_section(unknown)
    if result.findings or result.harmful_starts or unknown:
        yield ""
    checked = result.checked
    yield (
        f"Checked: {counted(checked.partitions, 'partition')}, "
        f"{counted(checked.segments, 'segment')}, "
        f"{size(checked.bytes)}, {checked.batches:,} batches, {checked.records:,} records"
    )


def _meanings(findings: Iterable[Finding]) -> Iterator[Line]:
    """Yield each kind with what it means, for each place where it means something else."""
    places: dict[Kind, dict[str, dict[str, None]]] = {}
    for finding in findings:
        where = finding.file.partition("/")[0]
        places.setdefault(finding.kind, {}).setdefault(finding.meaning, {})[where] = None
    for kind, meanings in places.items():
        for meaning, names in meanings.items():
            where = f": {printable(first_few(list(names), _FEW))}" if len(meanings) > 1 else ""
            yield f"  {kind}{where}"
            yield Paragraph(meaning)


def to_json(result: SweepResult) -> dict[str, Any]:
    findings = [
        {**fields_of(finding), "damage": finding.is_damage, "meaning": finding.meaning}
        for finding in result.findings
    ]
    return picked(result, "status", "checked") | {
        "findings": findings,
        "notes": result.notes,
        "starts": starts_to_json(result.starts),
    }


def _title(result: SweepResult) -> str:
    if not result.findings:
        harm = "No file is damaged, but a start of the broker would do harm."
        return harm if result.harmful_starts else "Nothing is wrong."
    partitions = {(f.log_dir, f.topic, f.partition) for f in result.findings if f.topic is not None}
    where = f" in {counted(len(partitions), 'partition')}" if partitions else ""
    mended = sum(finding.kind.is_repaired for finding in result.findings)
    rest = f", {mended:,} of them repaired by a broker when it starts" if mended else ""
    return f"{counted(len(result.findings), 'finding')}{where}{rest}"


def _table(findings: Sequence[Finding], width: int, *, several: bool) -> Iterator[Line]:
    """`several`: log directories were checked, so each file is named with its own."""
    shown, left = _chosen(findings)
    rows = [_row(finding, several=several) for finding in shown]
    head, *lines = aligned(rows, "kind", "file")
    narrow = any(len(line) > width for line in (head, *lines))
    if narrow:  # the name of the file has its own line
        names = [name for name in rows[0] if name != "file"]
        head, *lines = aligned([{name: row[name] for name in names} for row in rows], "kind")
    yield Styled(head, "bold")
    for line, row, finding in zip(lines, rows, shown, strict=True):
        style = "red" if finding.is_damage else "yellow"
        yield Styled(line, style)
        if narrow:
            yield Paragraph(row["file"], style, indent=4)
        yield Paragraph(printable(finding.message))
    for kind, count in left.items():
        yield Styled(f"... and {count:,} more of kind {kind}: --json has all", "yellow")


def _chosen(findings: Sequence[Finding]) -> tuple[list[Finding], Counter[Kind]]:
    """Return the findings that are shown, and how many others each kind has."""
    shown: list[Finding] = []
    of_kind: Counter[Kind] = Counter()
    for _, found in groupby(findings, key=lambda f: (f.log_dir, f.topic, f.partition, f.kind)):
        for finding in islice(found, MOST):
            if of_kind[finding.kind] < MOST_OF_KIND:
                of_kind[finding.kind] += 1
                shown.append(finding)
    return shown, Counter(finding.kind for finding in findings) - of_kind


def _row(finding: Finding, *, several: bool) -> Row:
    file = f"{finding.log_dir}/{finding.file}" if several else finding.file
    first, last = finding.first_offset, finding.last_offset
    return {
        "kind": finding.kind,
        "file": printable(file),
        "byte": "" if finding.position is None else str(finding.position),
        "offsets": ""
        if first is None
        else str(first)
        if first == last
        else f"{first}-{'' if last is None else last}",
    }
