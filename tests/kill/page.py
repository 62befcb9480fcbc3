"""The page docs/proofs/kill.md."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kill.kills import Victim


def put_section(page: Path, text: str) -> None:
    """Replace the section that has the heading of `text`, or append it."""
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = [*filter(None, re.split(r"\n+(?=## )", before.strip())), text.strip()]
    latest = {section.partition("\n")[0]: section for section in sections}
    page.write_text("\n\n".join(latest.values()) + "\n", encoding="utf-8")


def table(counts: Counter[tuple[Victim, Any]], columns: Sequence[str]) -> list[str]:
    """`counts`: killed runs by victim and column."""
    lines = [
        "| killed | " + " | ".join(columns) + " | all |",
        "|---|" + "--:|" * (len(columns) + 1),
    ]
    for victim in sorted({victim for victim, _ in counts}):
        row = [counts[victim, column] for column in columns]
        lines.append(f"| {victim} | " + " | ".join(map(str, [*row, sum(row)])) + " |")
    return lines


def filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_on_hyphens=False)
