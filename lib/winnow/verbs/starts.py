"""What the brokers do when they start, for verbs that do not prepare a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from winnow.cleaning.plan.settings import with_metadata
from winnow.clock import now_ms
from winnow.errors import WinnowError
from winnow.logdir.lock import locked
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.policy.sources import Settings
from winnow.runtime.progress import Progress
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark import SparkContext


def starts_of(
    sc: SparkContext,
    log_dirs: Sequence[LogDir],
    settings: Settings,
    *,
    wanted: Callable[[str], bool],
    progress: Progress,
) -> tuple[BrokerStart, ...]:
    """Return what the brokers of these log directories do when they start now, with the checkpoints
    that are there now.
    """
    dirs = survey_log_dirs(Places(), [log_dir.path for log_dir in log_dirs])
    return expected_starts(sc, dirs, settings, now=now_ms(), wanted=wanted, progress=progress)


def starts_beneath(
    sc: SparkContext, paths: Sequence[str], wanted: Callable[[str], bool], progress: Progress
) -> tuple[BrokerStart, ...]:
    """As `starts_of`. Nothing for directories that can only be read, such as parts of a log
    directory.
    """
    try:
        dirs = survey_log_dirs(Places(), paths)
        settings, _ = with_metadata(Settings(), Places(), dirs)
    except WinnowError:
        return ()
    return expected_starts(sc, dirs, settings, now=now_ms(), wanted=wanted, progress=progress)


def starts_here(
    paths: Sequence[str], settings: Settings, *, now: int, wanted: Callable[[str], bool]
) -> tuple[BrokerStart, ...]:
    """Return the same as `starts_of`, computed in this thread without Spark. For brokers that were
    shut down cleanly: few bytes of their logs are read.
    """
    with locked(paths, to_change=False) as dirs:
        settings, _ = with_metadata(settings, Places(), dirs)
        return expected_starts(None, dirs, settings, now=now, wanted=wanted)
