"""Whole runs over copies of the recorded log directory, and the files that they changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fixtures.data import TOPIC_CONFIGS, copy_tree, unpacked
from winnow.api.run import run_and_record
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult, RunResult
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings, parse_topic_set
from winnow.runtime.session import WithContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_795_300_000_000
"""As the recorded results of Kafka's cleaner have it: long after every record."""

STRAY = (".cleaned", ".swap", ".deleted", ".tmp")

Verb = Callable[..., RunResult]


@dataclass(frozen=True)
class AtStage:
    """Progress that does something when a stage begins whose name has `part` in it."""

    part: str
    action: Callable[[], None]

    def stage(
        self, name: str, *, total_bytes: int | None = None, total_tasks: int | None = None
    ) -> None:
        del total_bytes, total_tasks
        if self.part in name:
            self.action()

    def advance(self, amount: int) -> None:
        del amount


@dataclass(frozen=True)
class Stages:
    """Progress that keeps the name of each stage."""

    names: list[str] = field(default_factory=list)

    def stage(
        self, name: str, *, total_bytes: int | None = None, total_tasks: int | None = None
    ) -> None:
        del total_bytes, total_tasks
        self.names.append(name)

    def advance(self, amount: int) -> None:
        del amount


@dataclass(frozen=True)
class File:
    """All of a file that may matter to a broker or its administrator."""

    digest: str
    mtime_ns: int
    mode: int
    owner: tuple[int, int]


def files_of(directory: Path) -> dict[str, File | None]:
    """Relative path -> file; None for directories and what can't be read. `.lock` is left out:
    brokers make it too.
    """
    found: dict[str, File | None] = {}
    for path in directory.rglob("*"):
        name = str(path.relative_to(directory))
        if name == ".lock":
            continue
        try:
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            found[name] = None
            continue
        found[name] = File(
            digest, status.st_mtime_ns, status.st_mode, (status.st_uid, status.st_gid)
        )
    return found


def changes(before: Mapping[str, File | None], after: Mapping[str, File | None]) -> list[str]:
    """Names that came, went, or whose file is another in any way."""
    return sorted(
        name
        for name in {*before, *after}
        if (name in before, before.get(name)) != (name in after, after.get(name))
    )


def stray_files(log_dir: Path) -> list[str]:
    """What no finished run may leave behind."""
    return sorted(
        str(path.relative_to(log_dir))
        for path in log_dir.rglob("*")
        if path.name.startswith(".winnow") or path.name.endswith(STRAY)
    )


def settings(*topic_sets: str) -> Settings:
    """Those of the broker that wrote the recorded directory, plus `GLOB:KEY=VALUE` of the test's
    own.
    """
    return Settings(
        topic_configs=parse_topic_configs(TOPIC_CONFIGS.read_text(encoding="utf-8")),
        topic_sets=tuple(parse_topic_set(text) for text in topic_sets),
    )


def run(
    verb: Verb,
    spark: SparkSession,
    *log_dirs: Path,
    sets: Sequence[str] = (),
    now: int = NOW,
    **more: Any,
) -> RunResult:
    return verb(spark, [str(path) for path in log_dirs], settings=settings(*sets), now=now, **more)


def plan(spark: WithContext, log_dirs: Sequence[str], **options: Any) -> RunResult:
    """What the command line's `plan` calls. `options`: of `Request.of` and `run_and_record`."""
    return _done(spark, log_dirs, options, touch=False)


def clean(spark: WithContext, log_dirs: Sequence[str], **options: Any) -> RunResult:
    """What the command line's `clean` calls. `options`: of `Request.of` and `run_and_record`."""
    return _done(spark, log_dirs, options, touch=True)


def _done(
    spark: WithContext, log_dirs: Sequence[str], options: dict[str, Any], *, touch: bool
) -> RunResult:
    names = ("ledger", "output", "begin_again", "work_dir", "work_space")
    how = {name: options.pop(name) for name in names if name in options}
    return run_and_record(spark, log_dirs, Request.of(options, touch=touch), **how)


def by_name(result: RunResult) -> dict[str, PartitionResult]:
    named = {f"{p.topic}-{p.partition}": p for p in result.partitions}
    assert len(named) == len(result.partitions)
    return named


def new_log_dir(path: Path, *, cluster_id: str | None = None) -> Path:
    """A log directory of the recorded broker without a partition, shut down cleanly."""
    path.mkdir(parents=True)
    source = unpacked("before-clean") / "clean"
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        (path / name).write_bytes((source / name).read_bytes())
    if cluster_id is not None:
        meta = (path / "meta.properties").read_text()
        (path / "meta.properties").write_text(
            "\n".join(
                f"cluster.id={cluster_id}" if line.startswith("cluster.id") else line
                for line in meta.split("\n")
            )
        )
    return path


def add_partition(log_dir: Path, name: str, source: str) -> Path:
    """A copy of the recorded partition `source` under another name, all of it committed."""
    recorded = unpacked("before-clean") / "clean"
    ends = checkpoint(recorded / "replication-offset-checkpoint")
    copy_tree(recorded / source, log_dir / name)
    set_checkpoint(log_dir / "replication-offset-checkpoint", name, ends[source])
    return log_dir / name


def checkpoint(path: Path) -> dict[str, int]:
    """Partition directory -> offset."""
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {
        f"{topic}-{partition}": int(offset) for topic, partition, offset in map(str.split, lines)
    }


def set_checkpoint(path: Path, name: str, offset: int) -> None:
    entries = {**checkpoint(path), name: offset}
    lines = [
        f"{key.rpartition('-')[0]} {key.rpartition('-')[2]} {value}"
        for key, value in entries.items()
    ]
    path.write_text("".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)))


__all__ = [
    "NOW",
    "AtStage",
    "File",
    "Verb",
    "add_partition",
    "by_name",
    "changes",
    "checkpoint",
    "clean",
    "files_of",
    "new_log_dir",
    "plan",
    "run",
    "set_checkpoint",
    "settings",
    "stray_files",
]
