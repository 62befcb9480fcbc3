"""The verbs that need no Spark, and what the others do to a partition before Spark reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.unit.logdir.foreign import RUN
from winnow.api import recover
from winnow.logdir.checkpoints import (
    fold_leader_epochs,
    read_leader_epochs,
    update_offset_checkpoint,
    write_leader_epochs,
)
from winnow.logdir.lock import lock_log_dir, share_log_dir
from winnow.logdir.names import CLEANER_CHECKPOINT
from winnow.logdir.survey import survey_log_dirs
from winnow.state import TopicPartition
from winnow.storage.places import Places
from winnow.survey.place import PartitionPlace
from winnow.survey.survey import list_partition
from winnow.verbs.inspect.directories import describe_target, find_position, find_target
from winnow.verbs.verify.directories import check_directory, check_log_dir
from winnow.verbs.verify.findings import Scope

STORAGE = Places()
KEY = TopicPartition("t", 0)


def _recover(**options: object) -> Callable[[Path], object]:
    return lambda log_dir: recover([str(log_dir)], **options)  # type: ignore[arg-type]


def _inspect(log_dir: Path) -> object:
    told: list[object] = []
    for path in (log_dir, log_dir / "t-0"):
        target = find_target(STORAGE, str(path))
        told += [
            (file, *_all(file.lines)) for file in describe_target(STORAGE, target, records=True)
        ]
        if not target.is_log_dir:
            told += [
                find_position(STORAGE, target, offset=3),
                find_position(STORAGE, target, timestamp=3),
            ]
    return told


def _all(lines: Iterable[object]) -> list[object]:
    return [*lines]


def _plan(log_dir: Path) -> object:
    return survey_log_dirs(STORAGE, [str(log_dir)]), list_partition(
        PartitionPlace(str(log_dir), KEY)
    )


def _verify(log_dir: Path) -> object:
    place = Scope(str(log_dir), "t-0", "t", 0)
    return check_log_dir(STORAGE, str(log_dir), topics=()), check_directory(STORAGE, place)


def _commit(log_dir: Path) -> object:
    update_offset_checkpoint(STORAGE, f"{log_dir}/{CLEANER_CHECKPOINT}", {KEY: 50})
    directory = str(log_dir / "t-0")
    write_leader_epochs(
        STORAGE, directory, fold_leader_epochs(read_leader_epochs(STORAGE, directory), 50)
    )
    return None


def _lock(log_dir: Path) -> object:
    shared = share_log_dir(str(log_dir))
    if shared is not None:
        shared.close()
    lock_log_dir(str(log_dir)).close()
    return None


VERBS: dict[str, Callable[[Path], object]] = {
    "plan": _plan,
    "verify": _verify,
    "inspect": _inspect,
    "lock": _lock,
    "recover --dry-run": _recover(dry_run=True),
    "recover --undo --dry-run": _recover(undo_run=RUN, dry_run=True),
    "commit": _commit,
    "recover --undo": _recover(undo_run=RUN),
    "recover --purge": _recover(purge_run="all"),
    "recover": _recover(),
}
