"""The pages are true: a reader runs all their commands in order and compares the output."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import CLEAN_MARKER, TOPIC_CONFIGS, copy_log_dir
from tests.lock_holder import broker
from tests.log_writer.writer import LogWriter
from tests.pages import DOCS, LOG_DIR, ROOT, Reader, blocks, checkout
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOW_TO = (
    "how-to/disk-full",
    "how-to/recover",
    "how-to/schedule",
    "how-to/nightly",
    "how-to/cleaner-alive",
    "how-to/notebook",
    "erase",
    "how-to/read-topics",
    "how-to/point-in-time",
    "how-to/topic-to-delta",
)
LONG = {"how-to/topic-to-delta"}
"""Run with the slow set: its commands take a minute."""
RUNNABLE = ("bash", "console", "ini", "python", "sql")
PARTITIONS = ("c-tomb-0", "d-time-0", "d-size-0", "__consumer_offsets-?", "__cluster_metadata-0")
OTHERS = {
    "kafka-log.md": "tests/spark/test_kafka_log.py",
    "deploy.md": "tests/spark/test_deploy_page.py",
    "reference/configuration.md": "tests/spark/test_automation.py",
    "output.md": "tests/unit/cli/test_output_page.py",
    "python.md": "tests/spark/test_python_page.py",
    "safety.md": "tests/docs/test_site.py",
}
"""Pages that another test follows, or whose commands are the tests themselves."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout as working directory, with its own history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "winnow").mkdir()
    monkeypatch.chdir(tmp_path / "winnow")
    return checkout(tmp_path / "winnow")


def test_tutorial_runs_as_shown(spark: SparkSession, place: Path) -> None:
    Reader(spark, place).follow(DOCS / "tutorial.md")


def test_every_page_with_commands_is_run_by_a_test() -> None:
    runnable = {
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if blocks(page, *RUNNABLE)
    }
    assert runnable == {"tutorial.md", *OTHERS, *(f"{page}.md" for page in HOW_TO)}
    assert [
        name for name, test in OTHERS.items() if f'"{name}"' not in (ROOT / test).read_text("utf-8")
    ] == []


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in HOW_TO],
)
def test_how_to_page_runs_as_shown(page: str, spark: SparkSession, place: Path) -> None:
    instead = _own(place)
    if page in {"how-to/disk-full", "how-to/recover"}:
        crash(Path(instead[LOG_DIR]))
    if page == "how-to/read-topics":
        add_orders(Path(instead[LOG_DIR]))
    if page == "how-to/nightly":
        damage(Path(instead[LOG_DIR]) / "c-tomb-0")
        instead |= configure(place, instead)
    reader = Reader(spark, place, instead=instead)
    runs = broker(Path(instead[LOG_DIR])) if page == "how-to/cleaner-alive" else nullcontext()
    with runs:
        reader.follow(DOCS / f"{page}.md")


def crash(log_dir: Path) -> None:
    """Leave what a young broker leaves that dies: no marker, no recovery point, a torn batch."""
    (log_dir / CLEAN_MARKER).unlink()
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(b"")
    active = max((log_dir / "d-time-0").glob("*.log"))
    active.write_bytes(active.read_bytes() + bytes(range(100)))


def damage(partition: Path) -> None:
    """Flip a byte of the first batch's records."""
    segment = min(partition.glob("*.log"))
    changed = bytearray(segment.read_bytes())
    changed[100] ^= 255
    segment.write_bytes(changed)


def configure(place: Path, instead: dict[str, str]) -> dict[str, str]:
    """Write the page's file of options. Return real paths for the names in it."""
    more = {
        "/etc/winnow.toml": str(place / "winnow.toml"),
        "/etc/kafka/server.properties": str(place / "server.properties"),
        "/var/lib/node_exporter": str(place),
    }
    (options,) = blocks(DOCS / "how-to" / "nightly.md", "toml")
    text = options.text
    for word, mine in (instead | more).items():
        text = text.replace(word, mine)
    (place / "winnow.toml").write_text(text, encoding="utf-8")
    off = f"{(place / 'server.properties').read_text(encoding='utf-8')}log.cleaner.enable=false\n"
    (place / "cleaner-off.properties").write_text(off, encoding="utf-8")
    return more


def add_orders(log_dir: Path) -> None:
    """Add a topic with JSON, as an application writes it."""
    records: list[tuple[bytes, dict[str, object] | None]] = [
        (b"o1", {"id": 1, "city": "Bonn", "total": 12.5}),
        (b"o2", {"id": 2, "city": "Köln", "total": 20.0}),
        (b"o1", None),
    ]
    with LogWriter(log_dir / "orders-0", clock=lambda: 1_790_000_000_000) as log:
        log.append_records(
            [
                Record(
                    i,
                    1_790_000_000_000 + i,
                    key,
                    None if value is None else json.dumps(value).encode(),
                )
                for i, (key, value) in enumerate(records)
            ]
        )


def _own(place: Path) -> dict[str, str]:
    """Real paths for the names on the pages, with recorded partitions and settings."""
    (place / "server.properties").write_text(
        "node.id=1\nlog.retention.hours=168\n", encoding="utf-8"
    )
    (place / "topic-configs.txt").write_bytes(TOPIC_CONFIGS.read_bytes())
    log_dir = copy_log_dir("clean", place / "kafka", only=PARTITIONS)
    remove_other_topics(log_dir)
    return {LOG_DIR: str(log_dir), "/srv/winnow": str(place), "20GiB": "100KiB"}
