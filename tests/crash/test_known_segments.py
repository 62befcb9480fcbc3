"""A run crashes while it commits two partitions side by side and keeps what it knows of them. What
it leaves either is true of the files that it fits, or is not used (docs/decisions/0054).

The runs are real and on one directory, night after night: a copy of a file would fit nothing.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.logs import leftovers
from tests.crash.turns import NAMES, SCHEDULES, TakingTurns
from tests.spark.known_segments import check_known
from tests.spark.nights import CONFIGS, bytes_of, clean_partitions, write_day
from winnow.cleaning.learn import learn_segments
from winnow.cleaning.summaries import store
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


EFFECT, LIST = "effect", "step of a list"


class CrashError(BaseException):
    """The process has ended. Nobody handles it."""


class Ending(TakingTurns):
    """Ends the process before an effect of a commit, or before a step of the write of a list of
    what is known. From then on nothing reaches the disk.
    """

    def __init__(
        self, root: Path, turns: Iterator[str], *, at: tuple[str, int] | None = None
    ) -> None:
        super().__init__(root, turns, before_first=lambda: None)
        self._at = at
        self.done = {EFFECT: 0, LIST: 0}
        self._over = False

    def take_turn(self, method: str, act: Callable[[], None], path: str) -> None:
        def if_alive() -> None:
            self._step(EFFECT)
            act()

        super().take_turn(method, if_alive, path)

    def _step(self, kind: str) -> None:
        if self._over or (kind, self.done[kind]) == self._at:
            self._over = True
            raise CrashError
        self.done[kind] += 1

    def write_list(self, path: str, data: bytes) -> None:
        """As `write_output`. A crash leaves nothing, half of a file without its name, or all."""
        self._step(LIST)
        begun = Path(path).with_name(".winnow-begun.tmp")
        begun.touch(0o600)
        begun.write_bytes(data[: len(data) // 2])
        self._step(LIST)
        begun.write_bytes(data)
        begun.rename(path)
        self._step(LIST)


@dataclass
class Nights:
    """A log directory with two partitions whose runs crash, and one whose runs read everything."""

    spark: SparkSession
    root: Path
    patch: pytest.MonkeyPatch
    day: int = 0

    @property
    def summaries(self) -> Path:
        return self.root / "summaries"

    @property
    def log_dirs(self) -> tuple[Path, Path]:
        return self.root / "log-dir", self.root / "other"

    def write(self, *keys: list[int]) -> None:
        """Begin a day. `keys`: of each partition."""
        self.day += 1
        for log_dir in self.log_dirs:
            for number, some in enumerate(keys):
                write_day(log_dir, self.day, some, partition=number)

    def clean(self, storage: Ending | None = None) -> int:
        """Return how many segments were left unread."""
        more: dict[str, Any] = {} if storage is None else {"storage": storage}
        with self.patch.context() as patch:
            if storage is not None:
                patch.setattr(store, "write_output", storage.write_list)
            results = clean_partitions(
                self.spark, self.log_dirs[0], self.day, self.summaries, **more
            )
        return sum(result.segments_unread or 0 for result in results)

    def write_some(self, rng: random.Random) -> None:
        """Write keys that are in the last segment of the clean part, and one that is elsewhere."""
        cold = rng.randrange(300)
        self.write([cold, *range(322, 330)], [1000 + cold, *range(1322, 1330)])

    def learn(self) -> None:
        """Read what is not known any more."""
        learn_segments(
            self.spark.sparkContext,
            [str(self.log_dirs[0])],
            key_summaries=str(self.summaries),
            settings=Settings(topic_configs=parse_topic_configs(CONFIGS)),
            least_summed_up=1,
        )

    def compare(self) -> None:
        clean_partitions(self.spark, self.log_dirs[1], self.day, None)
        ours, others = map(bytes_of, self.log_dirs)
        assert ours == others
        for name in NAMES:
            assert leftovers(LocalStorage(), f"{self.log_dirs[0]}/{name}") == ()

    def known(self) -> list[int]:
        """Check all that is known. Return how many segments are, in each partition."""
        return [check_known(self.summaries, self.log_dirs[0] / name) for name in NAMES]


def _lose_unsynced(summaries: Path, before: set[Path], rng: random.Random) -> None:
    """The power fails. Of files of keys, which nobody syncs, anything may be left."""
    for path in sorted({*summaries.glob("*/*/*/*.keys")} - before):
        size = path.stat().st_size
        left = rng.choice((None, 0, size // 2, size))
        if left is None:
            path.unlink()
        else:
            os.truncate(path, left)
            os.truncate(path, rng.choice((left, size)))


@pytest.mark.parametrize(
    ("schedule", "every"),
    [
        ("alternating", 25),
        *(pytest.param(schedule, 3, marks=pytest.mark.slow) for schedule in SCHEDULES),
    ],
)
def test_what_is_known_after_a_crash_is_true_or_not_used(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    schedule: str,
    every: int,
) -> None:
    nights, rng = Nights(spark, tmp_path, monkeypatch), random.Random(54)
    nights.write([*range(330)], [*range(1000, 1330)])
    nights.clean()
    nights.compare()
    nights.write_some(rng)
    undisturbed = Ending(nights.log_dirs[0], SCHEDULES[schedule]())
    assert nights.clean(undisturbed) > 6
    nights.compare()
    steps = undisturbed.done
    assert steps[EFFECT] > 100
    assert steps[LIST] == 3 * len(NAMES)
    moments = [
        *((EFFECT, number) for number in range(0, steps[EFFECT], every)),
        *((LIST, number) for number in range(0, steps[LIST], min(every, 2))),
    ]
    crashed = 0
    for moment in moments:
        nights.write_some(rng)
        before = {*nights.summaries.glob("*/*/*/*.keys")}
        try:
            nights.clean(Ending(nights.log_dirs[0], SCHEDULES[schedule](), at=moment))
        except CrashError:
            crashed += 1
        if rng.random() < 0.5:
            _lose_unsynced(nights.summaries, before, rng)
        nights.known()
        nights.clean()
        nights.compare()
        nights.known()
        nights.learn()
        assert min(nights.known()) > 6, moment
    assert crashed >= 0.9 * len(moments)
