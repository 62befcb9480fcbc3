"""Commit what another process has staged: `python -m tests.spark.committing LOG_DIR FILE NOW`."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path

from winnow.cleaning.commit.compaction import commit
from winnow.cleaning.plan.decide_listed import decide_listed
from winnow.cleaning.plan.partitions import PlannedPartition, SelectedPartition
from winnow.cleaning.plan.planning import requested
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.staged import StagedPartition
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings, parse_topic_set
from winnow.storage.places import Places
from winnow.survey.survey import list_partition

TOPIC_CONFIGS = Path(__file__).parents[1] / "fixtures" / "topic-configs.txt"
SETS = ("*:min.cleanable.dirty.ratio=0",)


def request_at(now: int) -> Request:
    settings = Settings(
        topic_configs=parse_topic_configs(TOPIC_CONFIGS.read_text(encoding="utf-8")),
        topic_sets=tuple(map(parse_topic_set, SETS)),
    )
    return Request(settings=settings, now=now, touch=True, run_id="run")


def main(log_dir: str, staged_file: str, now: str) -> None:
    every: list[StagedPartition] = pickle.loads(Path(staged_file).read_bytes())  # noqa: S301 - its parent's
    by_directory = {staged.directory: staged for staged in every}
    request = request_at(int(now))
    with lock_log_dir(log_dir):
        for found in requested(survey_log_dirs(Places(), [log_dir]), request):
            assert isinstance(found, SelectedPartition)
            # The directory of the staging is expected.
            place = replace(found.place, goes_on=request.run_id)
            planned = decide_listed(replace(found, place=place), list_partition(place), request)
            assert isinstance(planned, PlannedPartition)
            done = commit(planned, by_directory[found.place.directory], request)
            assert isinstance(done, PartitionResult)
            assert done.error is None, done.error
    slow_to_load = {"llvmlite", "numba", "pyarrow", "pyspark"}
    assert slow_to_load.isdisjoint(sys.modules)


if __name__ == "__main__":
    main(*sys.argv[1:])
