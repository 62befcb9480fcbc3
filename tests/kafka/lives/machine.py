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

import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint
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
)
from tests.kafka.lives.both import TIMESTAMPS, Both, date, log_of, offsets, unmake
from tests.kafka.lives.known import still_known
from tests.kafka.lives.life import (
    BEGINNING,
    PASSES,
    PRODUCER_EXPIRATION_MS,
    Config,
    Life,
)
from tests.kafka.lives.outcome import (
    BROKER,
    FULL,
    FULL_INDEX,
    SNAPSHOT_IN_A_GAP,
    THROWS,
    UNLIVED,
    Difference,
    Outcome,
)
from tests.kafka.lives.undo import Undo
from tests.spark.runs import changes, clean, files_of
from winnow.cleaning.result import COMPACTED, NONE, RETAINED, PartitionResult
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    INDEX,
    LOG,
    LOG_START_CHECKPOINT,
    SNAPSHOT,
    segment_file,
)
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version


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
        return Machine(spark, kafka, reader or kafka, root, lives, known=known).all()
    finally:
        shutil.rmtree(root, ignore_errors=True)


class Machine:
    """`known`, `reader`, `root`: as for `run`."""

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
        version = asked_version(kafka.version)
        self._version, self._sparse_indexes = version, version.oldest.first < (3, 9, 1)
        self._both = Both(root, lives, version.oldest)
        self._ours, self._theirs = self._both.ours, self._both.theirs
        self._lives, self._told = self._both.lives, self._both.told
        self._outcome = Outcome(lives=len(lives))
        self._undo = Undo(root / "undo")

    def all(self) -> Outcome:
        self._write(0, BEGINNING)
        for number, now in enumerate(PASSES):
            self._both.commit(number)
            self._clean(number, now, keep=not number % 2)
            # After the last pass nothing; but Kafka opens what it left.
            self._write(number + 1, now)
        self._outcome.undone, self._outcome.refused = self._undo.undone, self._undo.refused
        return self._outcome

    def _write(self, number: int, now: int) -> None:
        """Let Kafka write the steps of a span to both logs, which must then be equal."""
        found = {name: self._both.times_found(name) for name in self._lives} if number else {}
        self._opened(number, now, found, self._append(number, now, self._steps(number)))

    def _append(self, number: int, now: int, steps: Path) -> dict[Path, Line]:
        return self._kafka.live(
            [log_dir / name for log_dir in (self._ours, self._theirs) for name in self._lives],
            now=now,
            steps=steps,
            topic_configs=self._both.configs(number),
            producer_expiration_ms=PRODUCER_EXPIRATION_MS,
            timestamps=",".join(map(str, TIMESTAMPS)),
        )

    def _opened(
        self,
        number: int,
        now: int,
        found: Mapping[str, Found | str],
        answers: Mapping[Path, Line],
    ) -> None:
        """Compare what Kafka says of both logs, and the files that it leaves.

        `found`: of Winnow's log, the offsets by timestamp before Kafka opened the log.
        """
        when = f"written to before pass {number}"
        starts = [
            read_checkpoint(log_dir / LOG_START_CHECKPOINT)
            for log_dir in (self._ours, self._theirs)
        ]
        for name in list(self._lives):
            ours, theirs = self._ours / name, self._theirs / name
            until = self._told[name][number].clock if number < len(PASSES) else now
            for directory in (ours, theirs):
                date(directory, now, until)
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
        self._both.drop(name)

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

    def _clean(self, number: int, now: int, *, keep: bool) -> None:
        when = f"pass {number}"
        configs = self._both.configs(number)
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
        for name in list(self._lives):
            if SNAPSHOT_IN_A_GAP in (results[name].error or ""):
                self._end(name, "a snapshot in a gap, which no log has that was never compacted")
        changed = [name for name in self._lives if {COMPACTED, RETAINED} & {*results[name].actions}]
        problems = self._undo.after_another_pass(self._ours, changed)
        again = self._clean_again(settings, now, when, results)
        answers, absent = self._attend(now, configs)
        cleaned = [name for name in changed if "uncleanable" not in answers[self._theirs / name]]
        problems |= self._undo.after_another_pass(self._theirs, cleaned)
        self._undo.forget()
        if keep:
            once = [name for name in changed if name not in again]
            problems |= self._undo.at_once(self._ours, result.run_id, once)
        self._both.forget_above(self._theirs)
        for name, files in absent.items():
            unmake(self._theirs / name, files)
        recompressed: dict[str, list[str]] = {}
        for name in list(self._lives):
            with still_known(self._summaries, self._ours / name):
                date(self._ours / name, now, now)
            date(self._theirs / name, now, now)
            with self._judging(name, when):
                assert name not in problems, problems[name]
                config = self._lives[name].span(number).config
                different = self._compare(name, results[name], answers[self._theirs / name], config)
                if different:
                    recompressed[name] = different
        self._go_on_with_ours(recompressed, when, now)
        self._both.go_on_with_our_snapshots(number)

    def _attend(self, now: int, configs: Path) -> tuple[dict[Path, Line], dict[str, set[str]]]:
        """Let Kafka's cleaner and retention work on the other logs. Return also which files these
        logs did not have before, by partition: see `unmake`.
        """
        absent = {
            name: {
                segment_file(base, suffix)
                for suffix in (SNAPSHOT, *INDEXES)
                for base in offsets(directory, LOG) - offsets(directory, suffix)
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
        return answers, absent

    def _clean_again(
        self, settings: Settings, now: int, when: str, results: dict[str, PartitionResult]
    ) -> set[str]:
        """At the same time nothing is left to do, unless retention has deleted the young segment
        that ended the cleanable range. Then this run cleans what is behind it, and a broker does so
        in the same pass. Returns such partitions, and puts their results into `results`.
        """
        before = files_of(self._ours)
        result = clean(self._spark, [str(self._ours)], settings=settings, now=now)
        changed = changes(before, files_of(self._ours))
        again = set()
        for one in result.partitions:
            name = f"{one.topic}-{one.partition}"
            first = results[name].actions
            if one.actions == (COMPACTED,) and RETAINED in first:
                results[name] = replace(one, actions=(*first, COMPACTED))
                again.add(name)
                for kept in (self._ours / name).glob(".winnow-kept-*"):
                    shutil.rmtree(kept)  # an undo of the first run would be refused now
            elif name in self._lives:
                with self._judging(name, when):
                    mine = [change for change in changed if f"{name}/" in change]
                    assert (one.actions, mine) == ((NONE,), []), (
                        f"a second run at the same time: {one.reason}"
                    )
        assert again or not [change for change in changed if "/" not in change], (
            "a second run changed a checkpoint"
        )
        return again

    def _compare(
        self, name: str, result: PartitionResult, answer: Line, config: Config
    ) -> list[str]:
        """The files that differ, but in nothing but how well records were compressed."""
        thrown = str(answer.get("uncleanable", ""))
        known = [known for part, known in THROWS.items() if part in thrown]
        assert known or not thrown, f"Kafka's cleaner gave up: {thrown}"
        failed = result.error or (result.reason if result.left_alone else None)
        if known and (known[0][1] is not None or failed is not None):
            # What comes after an empty batch of v0 or v1, a full index perhaps, only one of them
            # gets to.
            said = known[0][1] or FULL_INDEX
            assert said in str(failed), f"Kafka's cleaner gave up: {thrown}; we: {failed}"
        elif self._sparse_indexes and FULL_INDEX in str(failed):
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
        if start != result.log_start_offset_after and self._both.sizes_decide(name, config):
            self._end(name, "a size that compression decides")
            return []
        told = (result.log_start_offset_after, result.segments_after, COMPACTED in result.actions)
        assert told == (start, state["segments"], answer["rounds"] > 0), (
            f"our result is {result}, Kafka's {answer}"
        )
        self._compare_checkpoints(name, start)
        log = Log(start, state["end_offset"], self._both.committed[name])
        return self._compare_files(name, log)

    def _compare_checkpoints(self, name: str, start: int) -> None:
        for file in (CLEANER_CHECKPOINT, LOG_START_CHECKPOINT):
            found, expected = (
                read_checkpoint(root / file).get(name) for root in (self._ours, self._theirs)
            )
            if found is not None and expected is not None and file == CLEANER_CHECKPOINT:
                # A broker raises it when it looks next.
                found, expected = (max(found, start), max(expected, start))
            assert found == expected, f"{file}: {found}, Kafka has {expected}"

    def _compare_files(self, name: str, log: Log) -> list[str]:
        ours, theirs = self._ours / name, self._theirs / name
        different = differing(ours, theirs, log)
        rebuilt = _logs_of_indexes(different) if self._sparse_indexes else set()
        different = [
            name for name in different if not (name.endswith(INDEXES) and log_of(name) in rebuilt)
        ]
        if different:
            assert_same_but_compressed(self._reader, ours, theirs, different, rebuilt=rebuilt)
        return [*different, *rebuilt]

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
                if FULL in error:
                    self._end(name, "an index that Kafka can't rebuild")
                    continue
                assert not error, f"Kafka can't rebuild the indexes of what we left: {error}"
                assert_indexes_as_rebuilt(rebuilt / name, self._ours / name, files)
        shutil.rmtree(rebuilt)

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
            self._both.drop(name)


def _logs_of_indexes(names: Collection[str]) -> set[str]:
    """The logs whose indexes are among the names, but which are not themselves."""
    return {log_of(name) for name in names if name.endswith(INDEXES)} - {*names}
