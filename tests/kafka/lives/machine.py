"""Many lives at once. Each is a partition of two log directories: Winnow cleans one, Kafka cleans
the other.

Kafka's cleaner up to 3.9.0 indexes what it writes by the buffer. Winnow writes the indexes that a
broker of that version makes when it rebuilds them, so they are compared with these.

Kafka's own log writes to both, and opens what Winnow left like a broker that starts. After every
step all files must be equal; a partition with a difference is dropped. Every other run of Winnow
keeps what it replaces. It is undone in a copy at once, and in a copy of what the next pass leaves
(`undo`).
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint, write_checkpoint
from tests.kafka.judge.judge import Kafka, Line
from tests.kafka.lives.alike import (
    INDEXES,
    Found,
    Log,
    assert_indexes_as_rebuilt,
    assert_same_answer,
    assert_same_but_compressed,
    assert_same_times_found,
    differing,
    times_found,
)
from tests.kafka.lives.known import still_known
from tests.kafka.lives.life import (
    BEGINNING,
    HOUR_MS,
    PASSES,
    PRODUCER_EXPIRATION_MS,
    Config,
    Life,
)
from tests.kafka.lives.outcome import Difference, Outcome
from tests.kafka.lives.telling import Told, tell
from tests.kafka.lives.undo import Undo
from tests.spark.runs import changes, files_of
from winnow.api import clean
from winnow.cleaning.result import COMPACTED, NONE, RETAINED, PartitionResult
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    INDEX,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    SNAPSHOT,
    segment_file,
)
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version

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
BROKER = "".join(
    f"{name}={PRODUCER_EXPIRATION_MS}\n"
    for name in ("producer.id.expiration.ms", "transactional.id.expiration.ms")
)
"""Producers expire by the second one up to 3.3."""
_FULL = "Attempt to append to a full"
_FULL_INDEX = "the index of the cleaned segment would exceed segment.index.bytes"
THROWS: Mapping[str, tuple[str, str | None]] = {
    # S5.6: nothing is left of a batch that has to be kept, and of v0 or v1 there is no empty
    # header. Winnow writes one of v2; a broker never cleans such a partition again.
    "Empty batches are only supported for magic v2": ("no empty batch of v0 or v1", None),
    _FULL: ("a full index", _FULL_INDEX),
}
"""Part of what Kafka's cleaner throws: what the results call it, and what Winnow says then (None:
it has an answer).
"""
UNLIVED: Mapping[str, str] = {
    # An active segment's index is mapped in the size of segment.index.bytes, even if it is larger.
    "newPosition > limit": "an index that Kafka can't open",
}
"""Part of what Kafka's log throws that can't be opened or written to, and what the results call it.
"""
_MADE_NOW_MS = PASSES[-1] + 10_000 * HOUR_MS


def run(
    spark: SparkSession,
    kafka: Kafka,
    root: Path,
    lives: Mapping[str, Life],
    *,
    reader: Kafka | None = None,
    known: bool | None = None,
) -> Outcome:
    """All `lives` (by topic) from beginning to end in `root`, which is made and removed, by the
    rules of the version of `kafka`.

    `known`: whether segments are left unread that an earlier pass knows; None: their names decide.
    `reader`: dumps what both left, as only Kafka of KAFKA_VERSION can; None: `kafka` is that one.
    `root` is better in memory: both sync each file.
    """
    try:
        if known is None:
            known = bool(zlib.crc32(" ".join(lives).encode()) % 2)
        return _Run(spark, kafka, reader or kafka, root, lives, known=known).all()
    finally:
        shutil.rmtree(root, ignore_errors=True)


class _Run:
    def __init__(
        self,
        spark: SparkSession,
        kafka: Kafka,
        reader: Kafka,
        root: Path,
        lives: Mapping[str, Life],
        *,
        known: bool,
    ) -> None:
        self._summaries = root / "summaries" if known else None
        self._spark, self._kafka, self._reader, self._root = spark, kafka, reader, root
        self._version = asked_version(kafka.version)
        self._sparse_indexes = self._version.oldest.first < (3, 9, 1)
        self._ours, self._theirs = root / "winnow", root / "kafka"
        self._lives = {f"{topic}-0": life for topic, life in lives.items()}
        self._told: dict[str, list[Told]] = {
            name: tell(life, self._version.oldest) for name, life in self._lives.items()
        }
        self._outcome = Outcome(lives=len(lives))
        self._committed: dict[str, int] = {}
        self._undo = Undo(root / "undo")
        for log_dir in (self._ours, self._theirs):
            log_dir.mkdir(parents=True)
            (log_dir / META_PROPERTIES).write_text(
                "version=1\nnode.id=1\ncluster.id=V2lubm93T3JhY2xlMDAwMQ\n"
            )
            (log_dir / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
            for name in self._lives:
                (log_dir / name).mkdir()

    def all(self) -> Outcome:
        self._write(0, BEGINNING)
        for number, now in enumerate(PASSES):
            self._commit(number)
            self._clean(number, now, keep=not number % 2)
            # After the last pass nothing; but Kafka opens what it left.
            self._write(number + 1, now)
        self._outcome.undone, self._outcome.refused = self._undo.undone, self._undo.refused
        return self._outcome

    def _write(self, number: int, now: int) -> None:
        """Let Kafka write the steps of a span to both logs."""
        when = f"written to before pass {number}"
        steps = self._steps(number)
        found = {name: self._times_found(name) for name in self._lives} if number else {}
        answers = self._kafka.live(
            [log_dir / name for log_dir in (self._ours, self._theirs) for name in self._lives],
            now=now,
            steps=steps,
            topic_configs=self._configs(number),
            producer_expiration_ms=PRODUCER_EXPIRATION_MS,
            timestamps=",".join(map(str, TIMESTAMPS)),
        )
        starts = [
            read_checkpoint(log_dir / LOG_START_CHECKPOINT)
            for log_dir in (self._ours, self._theirs)
        ]
        for name in list(self._lives):
            ours, theirs = self._ours / name, self._theirs / name
            until = self._told[name][number].clock if number < len(PASSES) else now
            for directory in (ours, theirs):
                _date(directory, now, until)
            with self._judging(name, when):
                if self._unlived(name, answers[ours], answers[theirs]):
                    continue
                assert_same_answer(answers[ours], answers[theirs])
                state = answers[theirs]["after"]
                end = self._told[name][min(number, len(PASSES) - 1)].log_end_offset
                assert state["end_offset"] == end, f"told wrong: the log ends at {end}, {state}"
                if number:
                    assert_same_times_found(found[name], answers[theirs]["found"], TIMESTAMPS)
                assert starts[0].get(name) == starts[1].get(name), (
                    f"{LOG_START_CHECKPOINT}: {starts}"
                )
                different = differing(ours, theirs, Log(state["start_offset"], end, end))
                assert not different, f"after Kafka opened both, these differ: {different}"

    def _unlived(self, name: str, ours: Line, theirs: Line) -> bool:
        """Whether Kafka can't go on with either for a known reason; then the life is over."""
        errors = [str(answer.get("error", "")) for answer in (ours, theirs)]
        known = [words for part, words in UNLIVED.items() if all(part in error for error in errors)]
        assert known or not any(errors), (
            f"no life that can be lived: of ours {errors[0]!r}, of its own {errors[1]!r}"
        )
        if known:
            self._end(name, known[0])
        return bool(known)

    def _end(self, name: str, why: str) -> None:
        self._outcome.ended[why] = self._outcome.ended.get(why, 0) + 1
        self._drop(name)

    def _steps(self, number: int) -> Path:
        steps = self._root / f"steps-{number}"
        steps.mkdir()
        for name, told in self._told.items():
            if number < len(told) and name in self._lives:
                (steps / name).write_bytes(told[number].steps)
                self._outcome.batches += told[number].batches
                self._outcome.records += told[number].records
                self._outcome.bytes += len(told[number].steps)
        return steps

    def _commit(self, number: int) -> None:
        """The high watermarks. Where one is below the log end, snapshots above it go: they know
        nothing of transactions that ended before them, and a broker that loads one cleans what one
        that went on running would not (S8.4).
        """
        self._committed = {name: self._high_watermark(name, number) for name in self._lives}
        for log_dir in (self._ours, self._theirs):
            write_checkpoint(log_dir / HIGH_WATERMARK_CHECKPOINT, self._committed)
            self._forget_above(log_dir)

    def _high_watermark(self, name: str, number: int) -> int:
        """That of the life, or the log end where no snapshot would be left: then a broker that was
        shut down cleanly takes it that there are no producers at all (S8.4).

        Up to 3.0 it is the log end: Kafka cleaned what lies above the high watermark
        (KAFKA-13194), which Winnow never does.
        """
        end = self._told[name][number].log_end_offset
        if self._version.oldest.first < (3, 1, 0):
            return end
        wanted = max(0, end - self._lives[name].span(number).uncommitted)
        directory = self._theirs / name
        bases, snapshots = _offsets(directory, LOG), _offsets(directory, SNAPSHOT)
        start = max(min(bases), read_checkpoint(self._theirs / LOG_START_CHECKPOINT).get(name, 0))
        # A loader removes those between segments, but for one behind them all.
        left = any(
            start < offset <= wanted and (offset in bases or offset > max(bases))
            for offset in snapshots
        )
        return wanted if left else end

    def _forget_above(self, log_dir: Path) -> None:
        for name, offset in self._committed.items():
            for snapshot in (log_dir / name).glob(f"*{SNAPSHOT}"):
                if int(snapshot.stem) > offset:
                    snapshot.unlink()

    def _clean(self, number: int, now: int, *, keep: bool) -> None:
        when = f"pass {number}"
        configs = self._configs(number)
        settings = Settings(
            topic_configs=parse_topic_configs(configs.read_text()),
            server_properties=parse_server_properties(BROKER),
            kafka=self._version,
        )
        self._undo.about_to_clean(self._ours, self._lives)
        result = clean(
            self._spark,
            [str(self._ours)],
            settings=settings,
            now=now,
            keep_replaced=keep,
            key_summaries=None if self._summaries is None else str(self._summaries),
            least_summed_up=1,
        )
        results = {f"{p.topic}-{p.partition}": p for p in result.partitions}
        changed = [name for name in self._lives if {COMPACTED, RETAINED} & {*results[name].actions}]
        problems = self._undo.after_another_pass(self._ours, changed)
        self._clean_again(settings, now, when)
        absent = {
            name: {
                segment_file(base, suffix)
                for suffix in (SNAPSHOT, *INDEXES)
                for base in _offsets(directory, LOG) - _offsets(directory, suffix)
            }
            for name in self._lives
            for directory in [self._theirs / name]
        }
        answers = self._kafka.attend(
            [self._theirs / name for name in self._lives],
            now=now,
            topic_configs=configs,
            producer_expiration_ms=PRODUCER_EXPIRATION_MS,
            hw_checkpoint=True,
        )
        cleaned = [name for name in changed if "uncleanable" not in answers[self._theirs / name]]
        problems |= self._undo.after_another_pass(self._theirs, cleaned)
        self._undo.forget()
        if keep:
            problems |= self._undo.at_once(self._ours, result.run_id, changed)
        self._forget_above(self._theirs)
        for name, files in absent.items():
            self._unmake(self._theirs / name, files)
        recompressed: dict[str, list[str]] = {}
        for name in list(self._lives):
            with still_known(self._summaries, self._ours / name):
                _date(self._ours / name, now, now)
            _date(self._theirs / name, now, now)
            with self._judging(name, when):
                assert name not in problems, problems[name]
                config = self._lives[name].span(number).config
                different = self._compare(name, results[name], answers[self._theirs / name], config)
                if different:
                    recompressed[name] = different
        self._go_on_with_ours(recompressed, when, now)
        self._go_on_with_our_snapshots(number)

    @staticmethod
    def _unmake(directory: Path, files: Collection[str]) -> None:
        """Remove what the loader makes, but no pass: a snapshot where it replays batches for want
        of one, and the indexes of an empty segment. In 2.8 a log that was rolled twice in a row has
        none of them. A loader of 2.8 that finds no index learns of the producers.
        """
        for file in files:
            log = directory / _log_of(file)
            if file.endswith(SNAPSHOT) or (log.exists() and not log.stat().st_size):
                (directory / file).unlink(missing_ok=True)

    def _clean_again(self, settings: Settings, now: int, when: str) -> None:
        """At the same time nothing is left to do."""
        before = files_of(self._ours)
        result = clean(self._spark, [str(self._ours)], settings=settings, now=now)
        changed = changes(before, files_of(self._ours))
        for one in result.partitions:
            name = f"{one.topic}-{one.partition}"
            if name in self._lives:
                with self._judging(name, when):
                    mine = [change for change in changed if f"{name}/" in change]
                    assert (one.actions, mine) == ((NONE,), []), (
                        f"a second run at the same time: {one.reason}"
                    )
        assert not [change for change in changed if "/" not in change], (
            "a second run changed a checkpoint"
        )

    def _compare(
        self, name: str, result: PartitionResult, answer: Line, config: Config
    ) -> list[str]:
        """The files that differ, but in nothing but how well records were compressed."""
        ours, theirs = self._ours / name, self._theirs / name
        thrown = str(answer.get("uncleanable", ""))
        known = [known for part, known in THROWS.items() if part in thrown]
        assert known or not thrown, f"Kafka's cleaner gave up: {thrown}"
        failed = result.error or (result.reason if result.left_alone else None)
        if known and (known[0][1] is not None or failed is not None):
            # What comes after an empty batch of v0 or v1, a full index perhaps, only one of them
            # gets to.
            said = known[0][1] or _FULL_INDEX
            assert said in str(failed), f"Kafka's cleaner gave up: {thrown}; we: {failed}"
        elif self._sparse_indexes and _FULL_INDEX in str(failed):
            self._end(name, "an index that Kafka could not rebuild")
            return []
        else:
            assert failed is None, f"{failed}; Kafka: {answer}"
        if known:
            self._end(name, known[0][0])
            return []
        self._outcome.passes += 1
        self._outcome.compacted += COMPACTED in result.actions
        self._outcome.unchanged += result.segments_unchanged or 0
        self._outcome.unread += result.segments_unread or 0
        self._outcome.retained += RETAINED in result.actions
        state = answer["after"]
        start = state["start_offset"]
        if start != result.log_start_offset_after and self._sizes_decide(name, config):
            self._end(name, "a size that compression decides")
            return []
        told = (result.log_start_offset_after, result.segments_after, COMPACTED in result.actions)
        assert told == (start, state["segments"], answer["rounds"] > 0), (
            f"our result is {result}, Kafka's {answer}"
        )
        for file in (CLEANER_CHECKPOINT, LOG_START_CHECKPOINT):
            found, expected = (
                read_checkpoint(root / file).get(name) for root in (self._ours, self._theirs)
            )
            if found is not None and expected is not None and file == CLEANER_CHECKPOINT:
                # A broker raises it when it looks next.
                found, expected = (max(found, start), max(expected, start))
            assert found == expected, f"{file}: {found}, Kafka has {expected}"
        different = differing(ours, theirs, Log(start, state["end_offset"], self._committed[name]))
        rebuilt = _logs_of_indexes(different) if self._sparse_indexes else set()
        different = [
            name for name in different if not (name.endswith(INDEXES) and _log_of(name) in rebuilt)
        ]
        if different:
            assert_same_but_compressed(self._reader, ours, theirs, different, rebuilt=rebuilt)
        return [*different, *rebuilt]

    def _sizes_decide(self, name: str, config: Config) -> bool:
        """Whether retention.bytes lies between the sizes of both, after a compaction that
        compressed the same records again.
        """
        ours, theirs = (
            {log.name: log.stat().st_size for log in (log_dir / name).glob(f"*{LOG}")}
            for log_dir in (self._ours, self._theirs)
        )
        both = ours.keys() & theirs.keys()
        sizes = [sum(logs[log] for log in both) for logs in (ours, theirs)]
        return (
            "delete" in config.cleanup_policy
            and both in (ours.keys(), theirs.keys())
            and min(sizes) < config.retention_bytes <= max(sizes)
        )

    def _go_on_with_ours(
        self, recompressed: Mapping[str, Sequence[str]], when: str, now: int
    ) -> None:
        """Recompressed batches have other sizes, on which later passes depend. So Kafka continues
        with Winnow's files.
        """
        if not recompressed:
            return
        rebuilt = self._root / "rebuilt"
        rebuilt.mkdir()
        for name, files in recompressed.items():
            shutil.rmtree(self._theirs / name)
            copy_tree(self._ours / name, self._theirs / name)
            copy_tree(self._ours / name, rebuilt / name)
            for log in (rebuilt / name / file for file in files if file.endswith(LOG)):
                log.with_suffix(INDEX).unlink()
        answers = self._kafka.rebuild(
            [rebuilt / name for name in recompressed],
            now=now,
            topic_configs=self._root / "topic-configs.txt",
        )
        for name, files in recompressed.items():
            with self._judging(name, when):
                error = str(answers[rebuilt / name].get("error", ""))
                if _FULL in error:
                    self._end(name, "an index that Kafka can't rebuild")
                    continue
                assert not error, f"Kafka can't rebuild the indexes of what we left: {error}"
                assert_indexes_as_rebuilt(rebuilt / name, self._ours / name, files)
        shutil.rmtree(rebuilt)

    def _go_on_with_our_snapshots(self, number: int) -> None:
        """Above a high watermark below the log end they aren't compared; and without any a broker
        knows no producer.
        """
        for name in self._lives:
            if self._committed[name] < self._told[name][number].log_end_offset:
                for snapshot in (self._theirs / name).glob(f"*{SNAPSHOT}"):
                    snapshot.unlink()
                for snapshot in (self._ours / name).glob(f"*{SNAPSHOT}"):
                    shutil.copy2(snapshot, self._theirs / name)

    def _times_found(self, name: str) -> Found | str:
        start = read_checkpoint(self._ours / LOG_START_CHECKPOINT).get(name, 0)
        return times_found(self._ours / name, TIMESTAMPS, log_start_offset=start)

    def _configs(self, number: int) -> Path:
        file = self._root / "topic-configs.txt"
        lines = [
            line
            for name, life in self._lives.items()
            for line in life.span(number).config.lines(
                name.rpartition("-")[0], self._version.oldest
            )
        ]
        file.write_text("\n".join(lines))
        return file

    @contextmanager
    def _judging(self, name: str, when: str) -> Iterator[None]:
        """Report a partition that fails, and drop it."""
        if name not in self._lives:
            yield
            return
        try:
            yield
        except (AssertionError, OSError) as difference:
            self._outcome.differences.append(
                Difference(name.rpartition("-")[0], self._lives[name], when, str(difference))
            )
            self._drop(name)

    def _drop(self, name: str) -> None:
        del self._lives[name]
        for log_dir in (self._ours, self._theirs):
            shutil.rmtree(log_dir / name)


def _logs_of_indexes(names: Collection[str]) -> set[str]:
    """The logs whose indexes are among the names, but which are not themselves."""
    return {_log_of(name) for name in names if name.endswith(INDEXES)} - {*names}


def _log_of(file: str) -> str:
    return file[:20] + LOG


def _offsets(directory: Path, suffix: str) -> set[int]:
    return {int(path.stem) for path in directory.glob(f"*{suffix}")}


def _date(directory: Path, since: int, until: int) -> None:
    """Gives logs that were touched now, not in the past where all else takes place, times from
    `since` to `until`.
    """
    touched = sorted(
        log for log in directory.glob(f"*{LOG}") if log.stat().st_mtime_ns // 10**6 > _MADE_NOW_MS
    )
    for number, log in enumerate(touched, start=1):
        os.utime(log, ns=((since + (until - since) * number // len(touched)) * 10**6,) * 2)
