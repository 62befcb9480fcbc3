"""docs/findings.md has every kind of finding, as the code has it."""

from __future__ import annotations

import re
from pathlib import Path

from winnow.engine.sweep.kinds import Kind

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "findings.md"


def test_every_kind_is_documented_in_its_order() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (yes|no) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(kind.value, "yes" if kind.is_damage else "no") for kind in Kind]
