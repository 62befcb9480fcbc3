"""A sweep as text: where, what, and what it means, once for each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from winnow.cli.out import Paper, aligned, wrapped
from winnow.words import counted, printable, size

if TYPE_CHECKING:
    from winnow.verbs.verify.findings import Checked, Finding
    from winnow.verbs.verify.verify import SweepResult

MOST = 20
"""Findings of one kind in one partition that get their own lines. --json has all."""
HEAD = ("kind", "file", "byte", "offsets")

Row = tuple[str, ...]


def show(result: SweepResult, paper: Paper) -> None:
    paper.print(_title(result))
    if result.findings:
        for line in _table(result.findings, paper.width):
            paper.print(line)
        paper.print(Text("\nWhat it means", style="bold"))
        for kind in dict.fromkeys(finding.kind for finding in result.findings):
            paper.print(f"  {kind}")
            paper.print(wrapped(kind.meaning, paper.width))
        paper.print()
    paper.print(_checked(result.checked))


def to_json(result: SweepResult, more: Mapping[str, Any] | None = None) -> str:
    """Return the JSON object. Scripts depend on its keys: do not add, remove or rename any.

    `more` holds keys that only an option adds.
    """
    findings = [
        {**asdict(finding), "damage": finding.is_damage, "meaning": finding.meaning}
        for finding in result.findings
    ]
    whole = {
        "status": result.status,
        "checked": asdict(result.checked),
        "findings": findings,
        "notes": result.notes,
    }
    whole |= more or {}
    return json.dumps(whole, indent=2)


def _title(result: SweepResult) -> str:
    if not result.findings:
        return "Nothing is wrong."
    damage = sum(finding.is_damage for finding in result.findings)
    partitions = {(f.log_dir, f.topic, f.partition) for f in result.findings if f.topic is not None}
    where = f" in {counted(len(partitions), 'partition')}" if partitions else ""
    mended = len(result.findings) - damage
    rest = f", {mended} of them repaired by a broker when it starts" if mended else ""
    return f"{counted(len(result.findings), 'finding')}{where}{rest}"


def _table(findings: Sequence[Finding], width: int) -> Iterator[Text]:
    several = len({finding.log_dir for finding in findings}) > 1
    shown: list[tuple[Row, Finding | None]] = []
    for _, found in groupby(findings, key=lambda f: (f.log_dir, f.topic, f.partition, f.kind)):
        group = list(found)
        shown += [(_row(finding, several=several), finding) for finding in group[:MOST]]
        if len(group) > MOST:
            more = f"... and {len(group) - MOST} more of these: --json has all"
            shown.append(((group[0].kind, more, "", ""), None))
    head, *lines = aligned([HEAD, *(row for row, _ in shown)], words=(0, 1))
    yield Text(head, style="bold")
    for line, (_, finding) in zip(lines, shown, strict=True):
        yield Text(line, style="red" if finding and finding.is_damage else "yellow")
        if finding:
            yield wrapped(printable(finding.message), width)


def _row(finding: Finding, *, several: bool) -> Row:
    file = printable(f"{finding.log_dir}/{finding.file}" if several else finding.file)
    return (
        finding.kind,
        file,
        "" if finding.position is None else str(finding.position),
        _offsets(finding),
    )


def _offsets(finding: Finding) -> str:
    if finding.first_offset is None:
        return ""
    if finding.last_offset is None:
        return f"{finding.first_offset}-"
    same = finding.first_offset == finding.last_offset
    return str(finding.first_offset) if same else f"{finding.first_offset}-{finding.last_offset}"


def _checked(checked: Checked) -> str:
    return (
        f"Checked: {counted(checked.partitions, 'partition')}, "
        f"{counted(checked.segments, 'segment')}, "
        f"{size(checked.bytes)}, {checked.batches} batches, {checked.records} records"
    )
