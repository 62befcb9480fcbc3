"""Sections of pages that the code's own tables write: between `<!-- NAME -->` and `<!-- end
-->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.pages import DOCS
from tests.reference.commands import all_verbs
from tests.reference.licenses import licenses
from tests.reference.python import errors, functions
from tests.reference.rules import rules
from tests.reference.tables import (
    exit_codes,
    exit_codes_of_verbs,
    findings,
    kafka_log_columns,
    kafka_log_options,
    ledger,
    meanings,
    settings_ignored,
    settings_of_the_broker,
    settings_of_topics,
    versions,
)

SECTIONS = {
    "command-line": all_verbs,
    "exit-codes": exit_codes,
    "exit-codes-of-verbs": exit_codes_of_verbs,
    "findings": findings,
    "kafka-log-columns": kafka_log_columns,
    "kafka-log-options": kafka_log_options,
    "ledger": ledger,
    "licenses": licenses,
    "meanings": meanings,
    "python": functions,
    "python-errors": errors,
    "rules": rules,
    "settings-ignored": settings_ignored,
    "settings-of-the-broker": settings_of_the_broker,
    "settings-of-topics": settings_of_topics,
    "versions": versions,
}
_SECTION = re.compile(r"^<!-- ([a-z-]+) -->\n(.*?)^<!-- end -->\n", re.MULTILINE | re.DOTALL)


def pages() -> Iterator[tuple[Path, str]]:
    """Each page with such a section, and its text as it has to be."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _SECTION.search(text):
            yield page, _SECTION.sub(_written, text)


def names(page: Path) -> Sequence[str]:
    return [found[1] for found in _SECTION.finditer(page.read_text(encoding="utf-8"))]


def _written(found: re.Match[str]) -> str:
    text = "\n".join(SECTIONS[found[1]]()).strip()
    return f"<!-- {found[1]} -->\n\n{text}\n\n<!-- end -->\n"
