"""Preparations of copies of the recorded log directory, and their commits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.lock_holder import broker
from tests.spark.runs import by_name
from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.prepared.commit import commit_prepared
from winnow.cleaning.prepared.run import prepare
from winnow.cleaning.request import Preparing, Request
from winnow.cleaning.result import PartitionResult, RunResult
from winnow.clock import DAY_MS, now_ms
from winnow.logdir.names import PREPARED
from winnow.policy.sources import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED, OTHER = "c-tomb-0", "c-hotkey-0"
"""Two compacted partitions. The first is changed after it was prepared."""


def two_partitions(target: Path) -> Path:
    """A writable copy of CHANGED and OTHER."""
    return copy_log_dir("clean", target, only=[CHANGED, OTHER])


def prepared_copy(spark: SparkSession, target: Path) -> Path:
    """Both, with a preparation each."""
    prepared(spark, two_partitions(target))
    return target


def asked(*sets: str, configs: Path = TOPIC_CONFIGS) -> SettingsAsked:
    return SettingsAsked(topic_configs=str(configs), topic_sets=sets)


def prepared(
    spark: SparkSession,
    log_dir: Path,
    sources: SettingsAsked | None = None,
    *,
    now: int | None = None,
    runs: bool = True,
    max_age_ms: int = DAY_MS,
) -> RunResult:
    """Prepare a log directory; beside a program that holds its lock if `runs`."""
    sources = asked() if sources is None else sources
    request = Request(
        settings=sources.read(),
        now=now_ms() if now is None else now,
        touch=False,
        preparing=Preparing(asked=sources, most_age_ms=max_age_ms, keep_free=0),
    )
    if not runs:
        return prepare(spark, [str(log_dir)], request)
    with broker(log_dir):
        return prepare(spark, [str(log_dir)], request)


def committed(*log_dirs: Path, dry_run: bool = False, keep: bool = False) -> RunResult:
    request = Request(settings=Settings(), now=now_ms(), touch=True, keep_replaced=keep)
    return commit_prepared([*map(str, log_dirs)], request, dry_run=dry_run)


def results(result: RunResult) -> dict[str, PartitionResult]:
    return by_name(result)


def staged(log_dir: Path) -> dict[str, list[Path]]:
    """The staging directories that a commit may use, by partition."""
    found: dict[str, list[Path]] = {}
    for file in sorted(log_dir.glob(f"*/.winnow-*/{PREPARED}")):
        found.setdefault(file.parent.parent.name, []).append(file.parent)
    return found


def set_checkpoint(file: str, offset: int) -> Callable[[Path], None]:
    """Return a change of CHANGED's offset in a checkpoint."""

    def change(log_dir: Path) -> None:
        path = log_dir / file
        topic, _, partition = CHANGED.rpartition("-")
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        kept = [line for line in lines if not line.startswith(f"{topic} ")]
        kept.append(f"{topic} {partition} {offset}")
        path.write_text("\n".join(["0", str(len(kept)), *kept, ""]))

    return change
