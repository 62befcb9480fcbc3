"""The two log directories of many lives: Winnow cleans one, Kafka the other. What is done to both
alike.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from tests.kafka.cleaner.runs import read_checkpoint, write_checkpoint
from tests.kafka.lives.alike import Found, times_found
from tests.kafka.lives.life import BEGINNING, HOUR_MS, PASSES, Config, Life
from tests.kafka.lives.telling import Told, tell
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    SNAPSHOT,
)
from winnow.policy.versions import KafkaVersion

TIMESTAMPS = tuple(
    sorted(
        {
            0,
            1,
            *(now + by for now in (BEGINNING, *PASSES) for by in (-HOUR_MS // 2, -1, 0, 1)),
            2**40 + PASSES[-1],
        }
    )
)
"""What a consumer looks for before each span."""
_MADE_NOW_MS = PASSES[-1] + 10_000 * HOUR_MS


class Both:
    """`lives`: those that are not over, by partition."""

    def __init__(self, root: Path, lives: Mapping[str, Life], version: KafkaVersion) -> None:
        self.root, self._version = root, version
        self.ours, self.theirs = root / "winnow", root / "kafka"
        self.lives = {f"{topic}-0": life for topic, life in lives.items()}
        self.told: dict[str, list[Told]] = {
            name: tell(life, version) for name, life in self.lives.items()
        }
        self.committed: dict[str, int] = {}
        """High watermarks."""
        for log_dir in (self.ours, self.theirs):
            log_dir.mkdir(parents=True)
            (log_dir / META_PROPERTIES).write_text(
                "version=1\nnode.id=1\ncluster.id=V2lubm93T3JhY2xlMDAwMQ\n"
            )
            (log_dir / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
            for name in self.lives:
                (log_dir / name).mkdir()

    def commit(self, number: int) -> None:
        """The high watermarks. Where one is below the log end, snapshots above it go: they know
        nothing of transactions that ended before them, and a broker that loads one cleans what one
        that went on running would not (S8.4).
        """
        self.committed = {name: self._high_watermark(name, number) for name in self.lives}
        for log_dir in (self.ours, self.theirs):
            write_checkpoint(log_dir / HIGH_WATERMARK_CHECKPOINT, self.committed)
            self.forget_above(log_dir)

    def _high_watermark(self, name: str, number: int) -> int:
        """That of the life, or the log end where no snapshot would be left: then a broker that was
        shut down cleanly takes it that there are no producers at all (S8.4).

        Up to 3.0 it is the log end: Kafka cleaned what lies above the high watermark
        (KAFKA-13194), which Winnow never does.
        """
        end = self.told[name][number].log_end_offset
        if self._version.first < (3, 1, 0):
            return end
        wanted = max(0, end - self.lives[name].span(number).uncommitted)
        directory = self.theirs / name
        bases, snapshots = offsets(directory, LOG), offsets(directory, SNAPSHOT)
        start = max(min(bases), read_checkpoint(self.theirs / LOG_START_CHECKPOINT).get(name, 0))
        # A loader removes those between segments, but for one behind them all.
        left = any(
            start < offset <= wanted and (offset in bases or offset > max(bases))
            for offset in snapshots
        )
        return wanted if left else end

    def forget_above(self, log_dir: Path) -> None:
        for name, offset in self.committed.items():
            for snapshot in (log_dir / name).glob(f"*{SNAPSHOT}"):
                if int(snapshot.stem) > offset:
                    snapshot.unlink()

    def configs(self, number: int, *, delete_retention_longer_by: int = 0) -> Path:
        file = self.root / "topic-configs.txt"
        lines = []
        for name, life in self.lives.items():
            config = life.span(number).config
            longer = config.delete_retention_ms + delete_retention_longer_by
            longer_kept = replace(config, delete_retention_ms=longer)
            lines += longer_kept.lines(name.rpartition("-")[0], self._version)
        file.write_text("\n".join(lines))
        return file

    def times_found(self, name: str) -> Found | str:
        start = read_checkpoint(self.ours / LOG_START_CHECKPOINT).get(name, 0)
        return times_found(self.ours / name, TIMESTAMPS, log_start_offset=start)

    def go_on_with_our_snapshots(self, number: int) -> None:
        """Above a high watermark below the log end they aren't compared; and without any a broker
        knows no producer.
        """
        for name in self.lives:
            if self.committed[name] < self.told[name][number].log_end_offset:
                for snapshot in (self.theirs / name).glob(f"*{SNAPSHOT}"):
                    snapshot.unlink()
                for snapshot in (self.ours / name).glob(f"*{SNAPSHOT}"):
                    shutil.copy2(snapshot, self.theirs / name)

    def sizes_decide(self, name: str, config: Config) -> bool:
        """Whether retention.bytes lies between the sizes of both, after a compaction that
        compressed the same records again.
        """
        ours, theirs = (
            {log.name: log.stat().st_size for log in (log_dir / name).glob(f"*{LOG}")}
            for log_dir in (self.ours, self.theirs)
        )
        both = ours.keys() & theirs.keys()
        # Behind the first segment that only one deleted, retention.ms may have deleted others.
        gone = sorted((ours | theirs).keys() - both)[1:]
        sizes = [
            sum((theirs | ours | one)[log] for log in [*both, *gone]) for one in (ours, theirs)
        ]
        return (
            "delete" in config.cleanup_policy
            and both in (ours.keys(), theirs.keys())
            and min(sizes) < config.retention_bytes <= max(sizes)
        )

    def drop(self, name: str) -> None:
        del self.lives[name]
        for log_dir in (self.ours, self.theirs):
            shutil.rmtree(log_dir / name)


def unmake(directory: Path, files: Collection[str]) -> None:
    """Remove what the loader makes, but no pass: a snapshot where it replays batches for want
    of one, and the indexes of an empty segment. In 2.8 a log that was rolled twice in a row has
    none of them. A loader of 2.8 that finds no index learns of the producers.
    """
    for file in files:
        log = directory / log_of(file)
        if file.endswith(SNAPSHOT) or (log.exists() and not log.stat().st_size):
            (directory / file).unlink(missing_ok=True)


def log_of(file: str) -> str:
    return file[:20] + LOG


def offsets(directory: Path, suffix: str) -> set[int]:
    return {int(path.stem) for path in directory.glob(f"*{suffix}")}


def date(directory: Path, since: int, until: int) -> None:
    """Gives logs that were touched now, not in the past where all else takes place, times from
    `since` to `until`.
    """
    touched = sorted(
        log for log in directory.glob(f"*{LOG}") if log.stat().st_mtime_ns // 10**6 > _MADE_NOW_MS
    )
    for number, log in enumerate(touched, start=1):
        os.utime(log, ns=((since + (until - since) * number // len(touched)) * 10**6,) * 2)
