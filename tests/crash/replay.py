"""Record every effect on a file system, then rebuild the state that a crash after any of them would
leave.

`crash_points` yields directories. Callers run our recovery or Kafka's own loader on each.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.crash.tried import tried
from winnow.storage.places import Places

_EFFECTS = (
    "create", "rename", "link", "unlink", "truncate", "fsync_file", "fsync_dir", "mkdir",
    "ensure_dir", "rmdir", "copy_attributes", "set_mtime_ns",
)  # fmt: skip
_TARGET = {"rename": 1, "link": 1, "copy_attributes": 1}


@dataclass(frozen=True)
class Effect:
    """One call of a storage method; paths are relative to the directory that is being recorded."""

    method: str
    paths: tuple[str, ...]
    rest: tuple[object, ...]

    @property
    def parent(self) -> str:
        """The directory whose sync makes this effect last."""
        return os.path.dirname(self.paths[_TARGET.get(self.method, 0)])

    @property
    def is_sync(self) -> bool:
        return self.method in {"fsync_file", "fsync_dir"}

    def __str__(self) -> str:
        return f"{self.method} {' '.join(self.paths)}"

    def apply(self, root: Path | str) -> None:
        if not self.is_sync:
            getattr(Places(), self.method)(*(f"{root}/{path}" for path in self.paths), *self.rest)


class RecordingStorage(Places):
    """Performs each effect and records it, except the directories that are made first."""

    def __init__(
        self, root: Path | str, *, before_first: Callable[[], object] = lambda: None
    ) -> None:
        self._root = f"{root}/"
        self._before_first = before_first
        self.effects: list[Effect] = []


def _recorder(method: str) -> Callable[..., None]:
    def record(self: RecordingStorage, *arguments: object, **named: object) -> None:
        if not self.effects and method != "mkdir":
            self._before_first()
        getattr(Places, method)(self, *arguments, **named)
        count = 2 if method in _TARGET else 1
        # The directory itself is "", as in `Effect.parent`.
        paths = tuple(
            f"{path}/".removeprefix(self._root).removesuffix("/") for path in arguments[:count]
        )
        if self.effects or method != "mkdir":
            self.effects.append(Effect(method, paths, arguments[count:]))

    return record


for _method in _EFFECTS:
    setattr(RecordingStorage, _method, _recorder(_method))


@dataclass(frozen=True)
class CrashPoint:
    root: Path
    """A copy that may be changed; gone when the next point is asked for."""
    label: str
    in_order: bool
    """False: the file system kept a later effect and lost an earlier one, which only a sync rules
    out.
    """
    steps: Sequence[Effect] = ()
    """That led to it."""


def record(root: Path, action: Callable[[RecordingStorage], object]) -> list[Effect]:
    """Runs the action in `root` and returns its effects."""
    storage = RecordingStorage(root)
    action(storage)
    return storage.effects


def crash_points(
    pristine: Path,
    scratch: Path,
    action: Callable[[RecordingStorage, Path], object],
    *,
    out_of_order: bool = False,
    every: int = 1,
) -> Iterator[CrashPoint]:
    """States that a crash during `action(storage, root)` on a copy of `pristine` can leave; see
    `crash_states`.
    """
    whole = scratch / "whole"
    shutil.copytree(pristine, whole)
    effects = record(whole, lambda storage: action(storage, whole))
    shutil.rmtree(whole)
    return crash_states(pristine, scratch, effects, out_of_order=out_of_order, every=every)


def crash_states(
    pristine: Path,
    scratch: Path,
    effects: Sequence[Effect],
    *,
    out_of_order: bool = False,
    every: int = 1,
) -> Iterator[CrashPoint]:
    """States that a crash during these effects, the first of them on `pristine`, can leave.

    One after each effect, each file also half written, and the first before any. With
    `out_of_order` also those of a file system that keeps of the effects after the last sync of a
    directory all but one, or only one. States that look alike come once. `every`: only each so many
    of them.
    """
    if not effects:
        raise AssertionError("there is no effect to crash after")
    seen: set[str] = set()
    made: set[tuple[Effect, ...]] = set()
    for number, (label, steps, in_order) in enumerate(
        _histories(effects, out_of_order=out_of_order)
    ):
        lasting = tuple(step for step in steps if not step.is_sync)
        if number % every or lasting in made:
            continue
        made.add(lasting)
        root = scratch / f"{number:05d}"
        shutil.copytree(pristine, root)
        replay(steps, root, strict=in_order)
        print_of = fingerprint(root)
        if print_of not in seen:
            seen.add(print_of)
            tried["in order" if in_order else "with effects lost or reordered"] += 1
            yield CrashPoint(root, label, in_order, steps)
        shutil.rmtree(root)


def _histories(
    effects: Sequence[Effect], *, out_of_order: bool
) -> Iterator[tuple[str, list[Effect], bool]]:
    yield "before anything", [], True
    for done in range(1, len(effects) + 1):
        past, last = [*effects[:done]], effects[done - 1]
        if last.method == "create":
            (data,) = last.rest
            assert isinstance(data, bytes)
            for size in sorted({0, len(data) // 2}):
                yield (
                    f"{done}: half of {last}",
                    [*past[:-1], Effect("create", last.paths, (data[:size],))],
                    True,
                )
        yield f"{done}: {last}", past, True
        if out_of_order:
            loose = [
                n
                for n, effect in enumerate(past)
                if not effect.is_sync and not _is_durable(past, n)
            ]
            for one in loose:
                yield f"{done}: {last}, without {past[one]}", past[:one] + past[one + 1 :], False
                yield (
                    f"{done}: {last}, of the unsynced only {past[one]}",
                    [effect for n, effect in enumerate(past) if n == one or n not in loose],
                    False,
                )


def _is_durable(effects: list[Effect], number: int) -> bool:
    parent = effects[number].parent
    return any(
        later.method == "fsync_dir" and later.paths[0] == parent for later in effects[number + 1 :]
    )


def replay(steps: Sequence[Effect], root: Path | str, *, strict: bool = True) -> None:
    """Applies effects to a directory; unless `strict`, those that have become impossible are left
    out.
    """
    for step in steps:
        try:
            step.apply(root)
        except OSError:
            if strict:
                raise


def fingerprint(root: Path) -> str:
    """Names and contents of everything below a directory."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        digest.update(f"{path.relative_to(root)}\0{path.is_dir()}\0".encode())
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
