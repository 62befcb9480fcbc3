"""Which task scans, resolves and rewrites what."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from tests.unit.cleaning.partitions import NOW, SECRET, batch, job_of, make_partition, record
from winnow.cleaning.rewrite import assignment
from winnow.cleaning.rewrite.assignment import Assignment, assign
from winnow.runtime.spool import StoredKeys
from winnow.scan.job import CompactionJob, PartitionJob

CORES = 2
MIB = 2**20
KEYS = StoredKeys(first_dirty_offset=0, buckets=1, parts=())


@pytest.fixture
def job(tmp_path: Path) -> PartitionJob:
    """One group of two segments, of which no keys are prefetched."""
    return job_of(make_partition(tmp_path / "t-0", {0: [batch(record(0))], 5: [batch(record(5))]}))


def prefetched(job: PartitionJob) -> PartitionJob:
    return replace(job, splits=tuple(replace(split, keys=KEYS) for split in job.splits))


def of_mib(job: PartitionJob, mib: int) -> PartitionJob:
    (group,) = job.groups
    first = replace(group.segments[0], log_bytes=mib * MIB)
    return replace(job, groups=(replace(group, segments=(first,)),))


def assigned(*partitions: PartitionJob, spool: str | None = "/spool") -> Assignment:
    return assign(CompactionJob(NOW, SECRET, partitions), CORES, spool)


def test_few_prefetched_keys_are_resolved_by_the_rewrite(job: PartitionJob) -> None:
    found = assigned(prefetched(job), job, prefetched(job))
    assert found.resolved_by_rewrite == {0, 2}
    assert found.buckets == [[(1, 0)]]
    assert [*chain(*found.scans)] == [(1, 0), (1, 1)]
    assert sorted(chain(*found.groups)) == [(0, 0), (1, 0), (2, 0)]
    assert assigned(prefetched(job)).buckets == []


def test_many_keys_have_resolve_tasks(job: PartitionJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "_RESOLVED_BY_REWRITE", job.records - 1)
    found = assigned(prefetched(job))
    assert (found.resolved_by_rewrite, found.buckets) == (frozenset(), [[(0, 0)]])


def test_keys_of_groups_in_several_tasks_have_resolve_tasks(job: PartitionJob) -> None:
    """Else each of these tasks would read and compare all keys."""
    groups = of_mib(job, 400).groups * 2
    found = assigned(replace(prefetched(job), groups=groups))
    assert len(found.groups) == 2
    assert (found.resolved_by_rewrite, found.buckets) == (frozenset(), [[(0, 0)]])


@pytest.mark.parametrize(
    ("mib", "spool", "tasks"), [(60, "/spool", 2), (300, "/spool", 6), (60, None, 6)]
)
def test_cores_of_one_machine_have_one_task_each_if_there_is_little_to_rewrite(
    job: PartitionJob, mib: int, spool: str | None, tasks: int
) -> None:
    partitions = [of_mib(job, mib)] * 8
    assert len(assigned(*partitions, spool=spool).groups) == tasks
