"""The pages are true: a reader does all that they say, in order, and sees what they show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.pages import DOCS, LOG_DIR, Reader, checkout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout to be in, with a history of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "winnow").mkdir()
    monkeypatch.chdir(tmp_path / "winnow")
    return checkout(tmp_path / "winnow")


def test_the_tutorial(spark: SparkSession, place: Path) -> None:
    Reader(spark, place).follow(DOCS / "tutorial.md")


HOW_TO = ("disk-full", "schedule", "notebook", "erase")
PARTITIONS = ("c-tomb-0", "d-time-0", "d-size-0", "__consumer_offsets-0", "__cluster_metadata-0")


def test_every_how_to_page_has_a_reader() -> None:
    assert {page.stem for page in (DOCS / "how-to").glob("*.md")} == set(HOW_TO)


@pytest.mark.parametrize("page", HOW_TO)
def test_how_to(page: str, spark: SparkSession, place: Path) -> None:
    reader = Reader(spark, place, instead=_own(place))
    reader.follow(DOCS / "how-to" / f"{page}.md")


def _own(place: Path) -> dict[str, str]:
    """What a reader has in place of what the pages name. Of broker and topics as they were recorded."""
    (place / "server.properties").write_text("log.retention.hours=168\n", encoding="utf-8")
    (place / "topic-configs.txt").write_bytes(TOPIC_CONFIGS.read_bytes())
    log_dir = copy_log_dir("clean", place / "kafka", only=PARTITIONS)
    return {LOG_DIR: str(log_dir), "/srv/winnow": str(place), "20GiB": "100KiB"}
