"""Undo in random lives. Directly after the run it restores every byte. After another pass of Winnow
or Kafka it is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import CHECKPOINTS, read_checkpoint
from winnow.api import recover
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    KEPT_PREFIX,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
)
from winnow.recovery.runs.values import PartitionRecovery

Content = Mapping[str, tuple[bytes, int]]
"""By file name: bytes, and the time of logs."""


class Undo:
    """`root`: a working directory. Works on copies, so the lives continue as if nothing had been
    kept.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._run_id: str | None = None
        self._before: dict[str, Content] = {}
        self._starts: dict[str, dict[str, int]] = {}
        self._kept = root / "kept"
        self.undone = self.refused = 0

    def about_to_clean(self, log_dir: Path, names: Iterable[str]) -> None:
        self._before = {name: _content(log_dir / name) for name in names}
        self._starts = {
            file: read_checkpoint(log_dir / file)
            for file in (CLEANER_CHECKPOINT, LOG_START_CHECKPOINT)
        }

    def at_once(self, log_dir: Path, run_id: str, names: Iterable[str]) -> dict[str, str]:
        """After a run with `--keep-replaced`: problems of its undo, by partition. Afterwards
        `log_dir` has no kept files.
        """
        kept = self._kept_in(log_dir, run_id, names)
        problems: dict[str, str] = {}
        if kept:
            copy = self._copy(log_dir, kept)
            for name, found in _undone(copy, run_id).items():
                problem = found.error or self._difference(copy, name)
                self.undone += problem is None
                if problem is not None:
                    problems[name] = f"undo at once: {problem}"
            shutil.rmtree(copy)
        self._set_aside(log_dir, run_id, kept)
        return problems

    def after_another_pass(self, log_dir: Path, names: Iterable[str]) -> dict[str, str]:
        """`names`: partitions that the pass has changed. Those whose undo is not refused."""
        kept = [name for name in names if (self._kept / name).exists()]
        if self._run_id is None or not kept:
            return {}
        copy = self._copy(log_dir, kept)
        for name in kept:
            copy_tree(self._kept / name, copy / name / f"{KEPT_PREFIX}{self._run_id}")
        errors = {
            name: found.error or "none" for name, found in _undone(copy, self._run_id).items()
        }
        shutil.rmtree(copy)
        problems = {
            name: error
            for name, error in errors.items()
            if "the log has changed since the run" not in error
        }
        self.refused += len(errors) - len(problems)
        return {name: f"undo after another pass: {error}" for name, error in problems.items()}

    def forget(self) -> None:
        """Files kept so far."""
        shutil.rmtree(self._kept, ignore_errors=True)
        self._run_id = None

    def _kept_in(self, log_dir: Path, run_id: str, names: Iterable[str]) -> list[str]:
        return [name for name in names if (log_dir / name / f"{KEPT_PREFIX}{run_id}").exists()]

    def _copy(self, log_dir: Path, names: Iterable[str]) -> Path:
        copy = self._root / "undone"
        copy.mkdir(parents=True)
        for file in (META_PROPERTIES, CLEAN_SHUTDOWN, *CHECKPOINTS):
            if (log_dir / file).exists():
                shutil.copy2(log_dir / file, copy / file)
        for name in names:
            copy_tree(log_dir / name, copy / name)
        return copy

    def _set_aside(self, log_dir: Path, run_id: str, names: Iterable[str]) -> None:
        self._run_id = run_id
        self._kept.mkdir(parents=True)
        for name in names:
            (log_dir / name / f"{KEPT_PREFIX}{run_id}").rename(self._kept / name)

    def _difference(self, log_dir: Path, name: str) -> str | None:
        """A run that deletes everything creates a new active segment, which an undo keeps."""
        found, before = _content(log_dir / name), self._before[name]
        wrong = sorted(file for file in before if found.get(file) != before[file])
        wrong += sorted(file for file in found.keys() - before.keys() if found[file][0])
        if wrong:
            return f"these files are not as before: {', '.join(wrong)}"
        for file, starts in self._starts.items():
            was, now = starts.get(name), read_checkpoint(log_dir / file).get(name)
            # One that was outside of the log was reset by the run, and an undo never raises it.
            if now != was and (
                file != CLEANER_CHECKPOINT or was is None or now is None or now > was
            ):
                return f"{file}: {now}, before the run {was}"
        return None


def _content(directory: Path) -> Content:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns if path.suffix == ".log" else 0)
        for path in directory.iterdir()
    }


def _undone(log_dir: Path, run_id: str) -> dict[str, PartitionRecovery]:
    return {
        f"{p.topic}-{p.partition}": p for p in recover([str(log_dir)], undo_run=run_id).partitions
    }
