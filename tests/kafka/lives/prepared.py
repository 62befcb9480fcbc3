"""Lives whose log is prepared at the clock of a pass, written to by Kafka, and committed then.

Kafka's cleaner cleans the other log at the clock of the pass, and Kafka writes the same to it. Then
both must be equal. Winnow keeps tombstones longer by the longest age of a preparation: the other
log has a `delete.retention.ms` that is longer by so much. Where a commit drops a preparation,
Winnow's log continues as a copy of Kafka's.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint, write_checkpoint
from tests.kafka.judge.judge import Kafka, Line
from tests.kafka.lives.alike import Log
from tests.kafka.lives.both import date, offsets, unmake
from tests.kafka.lives.life import BEGINNING, PASSES, Append, Life
from tests.kafka.lives.machine import Machine
from tests.kafka.lives.outcome import BROKER, THROWS, Outcome
from tests.spark.preparing import committed, prepared
from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.prepared.value import Instant
from winnow.cleaning.result import COMPACTED, RETAINED, PartitionResult
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    STAGING_PREFIX,
)

AGE_MS = 1_800_000
"""The longest age of a preparation."""


def run(
    spark: SparkSession,
    kafka: Kafka,
    root: Path,
    lives: Mapping[str, Life],
    *,
    reader: Kafka | None = None,
) -> Outcome:
    """All `lives` (by topic) from beginning to end in `root`, which is made and removed."""
    of = {name: comparable(life) for name, life in lives.items()}
    try:
        return PreparedMachine(spark, kafka, reader or kafka, root, of, known=False).all()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def comparable(life: Life) -> Life:
    """The same life as far as Kafka's pass at the clock of the preparation leaves what a commit
    leaves: without retention by time and size, which goes by the log as it is at the commit; with
    all of it committed; in batches of v2, since tombstones of v0 and v1 go by the time of segments
    (S5.1), whatever the age of a preparation.
    """
    spans = (
        replace(
            span,
            steps=tuple(
                replace(step, magic=2, nested=False) if isinstance(step, Append) else step
                for step in span.steps
            ),
            config=replace(span.config, retention_ms=-1, retention_bytes=-1),
            uncommitted=0,
        )
        for span in life.spans
    )
    return Life(tuple(spans))


class PreparedMachine(Machine):
    def all(self) -> Outcome:
        (self._root / "nothing").mkdir(exist_ok=True)
        self._write(0, BEGINNING)
        for number, now in enumerate(PASSES):
            if not self._lives:
                break
            self._both.commit(number)
            with _clock(now):
                results = self._prepare(number, now)
                cleaned = self._kafkas_pass(number, now)
                self._append_to_both(number + 1, now)
                found = self._commit()
            self._compare_all(number, now, results, cleaned, found)
        return self._outcome

    def _prepare(self, number: int, now: int) -> dict[str, PartitionResult]:
        write_checkpoint(self._ours / RECOVERY_POINT_CHECKPOINT, self._both.committed)
        configs = self._root / f"prepared-{number}.txt"
        shutil.copy(self._both.configs(number), configs)
        server = self._root / "server.properties"
        server.write_text(f"{BROKER}log.dirs={self._ours}\n")
        asked = SettingsAsked(
            server_properties=(str(server),),
            topic_configs=str(configs),
            kafka_version=self._version.versions,
        )
        done = prepared(self._spark, self._ours, asked, now=now, runs=False, max_age_ms=AGE_MS)
        return {one.name: one for one in done.partitions}

    def _kafkas_pass(self, number: int, now: int) -> dict[Path, Line]:
        configs = self._both.configs(number, delete_retention_longer_by=AGE_MS)
        answers, absent = self._attend(now, configs)
        for name, files in absent.items():
            unmake(self._theirs / name, files)
            date(self._theirs / name, now, now)
        return answers

    def _append_to_both(self, number: int, now: int) -> None:
        answers = self._append(number, now, self._steps(number))
        for name in list(self._lives):
            until = self._told[name][number].clock if number < len(PASSES) else now
            for directory in (self._ours / name, self._theirs / name):
                date(directory, now, until)
            with self._judging(name, f"written to before pass {number}"):
                self._unlived(name, answers[self._ours / name], answers[self._theirs / name])

    def _commit(self) -> dict[str, PartitionResult]:
        done = committed(self._ours)
        return {one.name: one for one in done.partitions}

    def _compare_all(
        self,
        number: int,
        now: int,
        results: Mapping[str, PartitionResult],
        cleaned: Mapping[Path, Line],
        found: Mapping[str, PartitionResult],
    ) -> None:
        when = f"committed after pass {number}"
        recompressed: dict[str, list[str]] = {}
        for name in list(self._lives):
            with self._judging(name, when):
                result, answer = results[name], cleaned[self._theirs / name]
                if self._ends(name, result, answer) or self._dropped(name, found.get(name)):
                    continue
                if self._retention_comes_later(name, result, found.get(name), answer):
                    self._copy_kafkas(name)
                    continue
                different = self._compare_one(number, name, result, answer)
                if different:
                    recompressed[name] = different
        self._both.configs(number)  # by these Kafka rebuilds the indexes of a pass
        self._go_on_with_ours(recompressed, when, now)
        times = {name: self._both.times_found(name) for name in self._lives}
        answers = self._append(number + 1, now, self._root / "nothing")
        self._opened(number + 1, now, times, answers)

    def _ends(self, name: str, result: PartitionResult, answer: Line) -> bool:
        """Whether Kafka's cleaner gave up for a known reason; then the life is over."""
        thrown = str(answer.get("uncleanable", ""))
        known = [known for part, known in THROWS.items() if part in thrown]
        assert known or not thrown, f"Kafka's cleaner gave up: {thrown}"
        if known:
            self._end(name, known[0][0])
        else:
            assert result.error is None, f"{result.error}; Kafka: {answer}"
            assert not result.left_alone, f"{result.reason}; Kafka: {answer}"
        return bool(known)

    def _dropped(self, name: str, result: PartitionResult | None) -> bool:
        """Whether the commit dropped the preparation; then Winnow's log continues as Kafka's."""
        if result is None or not result.left_alone:
            return False
        check = re.sub(r" \d+", "", result.reason.partition(": expected")[0].rpartition(": ")[2])
        self._outcome.dropped[check] = self._outcome.dropped.get(check, 0) + 1
        self._copy_kafkas(name)
        return True

    def _copy_kafkas(self, name: str) -> None:
        shutil.rmtree(self._ours / name)
        copy_tree(self._theirs / name, self._ours / name)
        for file in (CLEANER_CHECKPOINT, LOG_START_CHECKPOINT):
            mine, theirs = (read_checkpoint(at / file) for at in (self._ours, self._theirs))
            mine.pop(name, None)
            write_checkpoint(
                self._ours / file, mine | ({name: theirs[name]} if name in theirs else {})
            )

    def _retention_comes_later(
        self,
        name: str,
        result: PartitionResult,
        committed: PartitionResult | None,
        answer: Line,
    ) -> bool:
        """Whether a pass of Kafka is not the same as a preparation and its commit: the log is due
        without the segments that retention deletes, and the same pass cleans it; or retention of
        the commit deletes a segment that was the active one at the time of the pass.
        """
        if result.actions == (RETAINED,) and answer["rounds"] > 0:
            return True
        ours, theirs = (min(offsets(at / name, ".log")) for at in (self._ours, self._theirs))
        return ours > theirs and committed is not None and RETAINED in committed.actions

    def _compare_one(
        self, number: int, name: str, result: PartitionResult, answer: Line
    ) -> list[str]:
        assert not [*(self._ours / name).glob(f"{STAGING_PREFIX}*")], "staged files are left"
        compacts = COMPACTED in result.actions
        assert compacts == (answer["rounds"] > 0), f"prepared: {result}; Kafka: {answer}"
        self._outcome.passes += 1
        self._outcome.compacted += compacts
        self._outcome.committed += result.acts
        starts = read_checkpoint(self._theirs / LOG_START_CHECKPOINT)
        start = max(min(offsets(self._theirs / name, ".log")), starts.get(name, 0))
        self._compare_checkpoints(name, start)
        end = self._told[name][min(number + 1, len(PASSES) - 1)].log_end_offset
        return self._compare_files(name, Log(start, end, end))


@contextmanager
def _clock(now: int) -> Iterator[None]:
    """Let commits of preparations take place at the clock of a pass, and go on from there."""
    behind = time.time_ns() // 10**6 - now
    real = Instant.now

    def at_that_time() -> Instant:
        instant = real()
        return replace(instant, wall_ms=instant.wall_ms - behind)

    with patch.object(Instant, "now", at_that_time):
        yield
