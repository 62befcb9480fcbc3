"""Two partitions are committed at the same time, and one fails, or the run is stopped. Neither
disturbs the other (decision 50).
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.logs import leftovers
from tests.crash.replay import RecordingStorage
from tests.crash.runs import checkpoint_entry, content_of, run_winnow
from tests.crash.turns import NAMES
from tests.crash.two import Alone, same_entries
from tests.fixtures.data import copy_tree
from winnow.cleaning.commit import commit
from winnow.cleaning.result import PartitionResult
from winnow.logdir.names import CLEANER_CHECKPOINT, STAGING_PREFIX
from winnow.runtime.stop import Stop
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()


class Failing(RecordingStorage):
    """Fails one effect of the first partition: the `number`th with this method and text."""

    def __init__(self, root: Path, method: str, text: str, number: int, code: int) -> None:
        super().__init__(root)
        self._what = method, text, code
        self._left = number
        self.lock = threading.Lock()

    def fail(self, method: str, path: str) -> None:
        wanted, text, code = self._what
        with self.lock:
            if method == wanted and text in path and self._left:
                self._left -= 1
                if not self._left:
                    raise OSError(code, os.strerror(code), path)


def _failing(method: str) -> Callable[..., None]:
    recorded = getattr(RecordingStorage, method)

    def effect(self: Failing, *arguments: object) -> None:
        self.fail(method, str(arguments[0]))
        recorded(self, *arguments)

    return effect


for _method in ("create", "rename", "fsync_dir", "unlink"):
    setattr(Failing, _method, _failing(_method))


@pytest.mark.parametrize(
    ("method", "text", "number", "code"),
    [
        ("create", "/t-0/", 1, errno.ENOSPC),
        ("fsync_dir", "/t-0", 1, errno.EIO),
        ("fsync_dir", "/t-0", 9, errno.EIO),
        ("rename", "/t-0/", 11, errno.EIO),
        ("unlink", "/t-0/", 3, errno.EIO),
        ("create", CLEANER_CHECKPOINT, 1, errno.ENOSPC),
    ],
)
def test_failure_of_one_leaves_the_other_undisturbed(
    method: str,
    text: str,
    number: int,
    code: int,
    spark: SparkSession,
    alone: Alone,
    tmp_path: Path,
) -> None:
    before, runs = alone("compact,delete")
    log_dir = tmp_path / "log-dir"
    copy_tree(before, log_dir)
    case = runs[NAMES[0]].case
    storage = Failing(log_dir, method, text, number, code)
    results = _by_name(run_winnow(spark, log_dir, case, storage=storage))
    failed = [name for name, result in results.items() if result.error]
    assert len(failed) == 1
    assert failed == ["t-0"] or "t-0" not in text
    (other,) = set(NAMES) - {*failed}
    assert content_of(log_dir / other) == content_of(runs[other].after / other)
    assert [*_by_name(run_winnow(spark, log_dir, case)).values()]
    for name, run in runs.items():
        assert content_of(log_dir / name) == content_of(run.after / name)
        assert checkpoint_entry(log_dir, CLEANER_CHECKPOINT, name) == checkpoint_entry(
            run.after, CLEANER_CHECKPOINT, name
        )


def test_stop_ends_what_has_begun_and_begins_no_other(
    spark: SparkSession,
    alone: Alone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit, "COMMITS_AT_ONCE", 2)
    before, runs = alone("compact")
    log_dir = tmp_path / "log-dir"
    copy_tree(before, log_dir)
    for number in range(2, 8):
        copy_tree(log_dir / "t-0", log_dir / f"t-{number}")
        same_entries(log_dir, number)
    stop = Stop()
    results = _by_name(
        run_winnow(spark, log_dir, runs["t-0"].case, storage=_StoppingAtFirstSwap(stop), stop=stop)
    )
    stopped = {name for name, result in results.items() if "the run was stopped" in result.reason}
    assert len(stopped) >= 8 - 2 * 2
    assert len(results) - len(stopped) >= 1
    for name, result in results.items():
        assert result.error is None
        assert not list((log_dir / name).glob(f"{STAGING_PREFIX}*"))
        wanted = before / ("t-1" if name == "t-1" else "t-0")
        if name in stopped:
            assert content_of(log_dir / name) == content_of(wanted)
        else:
            assert leftovers(STORAGE, f"{log_dir}/{name}") == ()
            assert content_of(log_dir / name) != content_of(wanted)


class _StoppingAtFirstSwap(Places):
    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def rename(self, source: str, target: str) -> None:
        if source.endswith(".swap"):
            self._stop.request("a test asked for it")
        super().rename(source, target)


def _by_name(results: list[PartitionResult]) -> dict[str, PartitionResult]:
    return {f"{r.topic}-{r.partition}": r for r in results}
