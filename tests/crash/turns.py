"""Drive the threads of two commits through a chosen interleaving of their effects."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, pairwise
from pathlib import Path

from tests.crash.replay import Effect, RecordingStorage
from winnow.storage.turns import waiting

NAMES = ("t-0", "t-1")
PATIENCE_S = 0.05
"""After this time without an effect of the one whose turn it is, the other goes on until its next
effect: it may wait for the file that both share, or have ended.
"""


def switches(effects: Sequence[Effect]) -> int:
    """Return how often an effect of one partition follows one of the other."""
    owners = [owner for effect in effects if (owner := effect.paths[0].split("/")[0]) in NAMES]
    return sum(one != other for one, other in pairwise(owners))


class TakingTurns(RecordingStorage):
    """Decides which of two partitions makes the next effect."""

    def __init__(
        self, root: Path | str, turns: Iterator[str], *, before_first: Callable[[], object]
    ) -> None:
        super().__init__(root, before_first=before_first)
        self._turns = turns
        self._next = next(turns)
        self._changed = threading.Condition()
        self._who: dict[int, str] = {}
        """Partition of each thread."""
        self._away: set[str] = set()
        """Those that nobody waits for until their next effect."""

    def take_turn(self, method: str, act: Callable[[], None], path: str) -> None:
        directory = path.removeprefix(self._root).partition("/")[0]
        thread = threading.get_ident()
        if directory in NAMES:
            self._who[thread] = directory
        who = self._who.get(thread)
        with waiting(), self._changed:
            self._away.discard(who or "")
            if who is not None and method != "mkdir":
                came = self._changed.wait_for(
                    lambda: self._next == who or self._next in self._away, timeout=PATIENCE_S
                )
                if not came:
                    self._away.add(self._next)
            act()
            if who is not None:
                self._next = next(self._turns)
            self._changed.notify_all()


def _taking_turns(method: str) -> Callable[..., None]:
    recorded = getattr(RecordingStorage, method)

    def effect(self: TakingTurns, *arguments: object) -> None:
        self.take_turn(method, lambda: recorded(self, *arguments), str(arguments[-1]))

    def first(self: TakingTurns, path: str, *rest: object) -> None:
        self.take_turn(method, lambda: recorded(self, path, *rest), path)

    return first if method in {"create", "truncate", "set_mtime_ns"} else effect


for _method in (
    "create", "rename", "link", "unlink", "truncate", "fsync_file", "fsync_dir", "rmdir",
    "copy_attributes", "set_mtime_ns", "mkdir", "ensure_dir",
):  # fmt: skip
    setattr(TakingTurns, _method, _taking_turns(_method))


def alternating() -> Iterator[str]:
    return cycle(NAMES)


def one_ahead() -> Iterator[str]:
    """The first is far ahead, and waits only for its checkpoint."""
    return cycle((*NAMES[:1] * 7, *NAMES[1:]))


def at_random(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield from (rng.choice(NAMES),) * rng.randint(1, 12)


SCHEDULES: dict[str, Callable[[], Iterator[str]]] = {
    "alternating": alternating,
    "one ahead": one_ahead,
    **{f"random {seed}": lambda seed=seed: at_random(seed) for seed in range(4)},  # type: ignore[misc]
}
