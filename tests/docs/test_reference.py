"""The reference is generated from the code: run `.venv/bin/python -m tests.reference` after a
change.
"""

from __future__ import annotations

import pytest

from tests.reference import sections
from winnow.kafka_log.options import OPTIONS, parse_options
from winnow.policy.config import KEYS


def test_generated_pages_are_up_to_date() -> None:
    stale = [
        page.name for page, text in sections.pages() if page.read_text(encoding="utf-8") != text
    ]
    assert not stale, "run .venv/bin/python -m tests.reference"


def test_every_generated_table_is_on_a_page() -> None:
    written = [name for page, _ in sections.pages() for name in sections.names(page)]
    assert sorted(written) == sorted(sections.SECTIONS)


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.default])
def test_documented_default_equals_a_missing_option(name: str) -> None:
    assert parse_options({"path": "/kafka", name: OPTIONS[name].default}) == parse_options(
        {"path": "/kafka"}
    )


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_setting_is_documented(key: object) -> None:
    assert getattr(key, "doc", "")
