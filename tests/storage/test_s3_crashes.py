"""A cleaning in S3 is killed after any of its driver's requests: what readers see, and what the
next run does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.spark.runs import NOW, clean, run, settings
from tests.storage.requests import Counting, Died
from tests.storage.s3 import BUCKET
from tests.storage.test_output import upload
from winnow.cleaning.clean import clean as clean_partitions
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.logdir.survey import survey_log_dirs
from winnow.storage import places
from winnow.storage.places import Places, open_tree
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.storage import S3Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHANGES = {"c-tomb-0": 1, "cd-mixed-0": 2, "d-start-0": 1, "t-closed-0": 1}
"""Partitions, and how often the log of each is another one: compaction and retention are a change
each.
"""
SETS = ("c-*:internal.segment.bytes=8192", "cd-*:retention.ms=1000")
"""All segments of `cd-mixed` are deleted, and its active segment is rolled."""


@dataclass(frozen=True)
class Home:
    """Copies of one log directory in a bucket, cleaned by drivers that may die."""

    spark: SparkSession
    root: str
    source: Path
    monkeypatch: pytest.MonkeyPatch

    def copy(self, name: str) -> str:
        upload(self.source, f"{self.root}/{name}")
        return f"{self.root}/{name}"

    def clean(self, url: str, bucket: S3Bucket) -> list[PartitionResult]:
        storage = S3Storage(bucket)
        with self.monkeypatch.context() as patch:
            patch.setattr(places, "_remote", lambda *_: storage)
            request = Request(
                run_id="run",
                settings=settings(*SETS),
                topics=(),
                now=NOW,
                only=None,
                touch=True,
                storage=Places(),
            )
            prepared = plan_partitions(
                self.spark.sparkContext, survey_log_dirs(Places(), [url]), request
            )
            return clean_partitions(self.spark.sparkContext, prepared, request).partitions


@pytest.fixture
def home(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Home:
    place = str(request.getfixturevalue(request.param))
    source = copy_log_dir("clean", tmp_path / "source", only=[*CHANGES])
    return Home(spark, f"{place}/{tmp_path.name}", source, monkeypatch)


def contents(url: str) -> dict[str, bytes]:
    """All objects."""
    store = open_tree(url)
    return {file.name: store.read_range(file.name, 0, file.size) for file in store.list_tree()}


def in_place(home: Home, target: Path) -> dict[str, bytes]:
    """What the same run leaves on a disk."""
    copy_tree(home.source, target)
    run(clean, home.spark, target, sets=SETS)
    files = (path for path in target.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(target)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "home", ["s3", pytest.param("gateway", marks=pytest.mark.slow)], indirect=True
)
def test_cleaning_in_s3_equals_cleaning_on_disk(home: Home, tmp_path: Path) -> None:
    url = home.copy("whole")
    seen: dict[str, list[tuple[object, ...]]] = {name: [] for name in CHANGES}

    def look() -> None:
        reader = S3Storage(S3Bucket(BUCKET))
        for name, states in seen.items():
            listed = reader.list_dir(f"{url}/{name}")
            logs = tuple(
                (e.name, e.size, e.mtime_ns, e.stamp if e.size else ())
                for e in listed
                if e.name.endswith(".log")
            )
            if logs not in states[-1:]:
                states.append(logs)

    look()
    bucket = Counting(BUCKET, after=look)
    results = home.clean(url, bucket)
    assert all(result.error is None and result.actions != ("none",) for result in results), results
    assert contents(url) == in_place(home, tmp_path / "disk")
    assert {name: len(states) - 1 for name, states in seen.items()} == CHANGES
    assert bucket.made > 40, bucket.made


@pytest.mark.parametrize(
    ("home", "every"),
    [
        ("s3", 71),
        pytest.param("s3", 1, marks=pytest.mark.slow),
        pytest.param("gateway", 4, marks=pytest.mark.slow),
    ],
    indirect=["home"],
)
def test_next_run_after_any_kill_gives_same_result(home: Home, every: int, tmp_path: Path) -> None:
    expected = in_place(home, tmp_path / "disk")
    requests, deaths = every - 1, 0
    while True:
        url = home.copy(f"killed-{requests}")
        try:
            home.clean(url, Counting(BUCKET, left=requests))
            break
        except Died:
            again = home.clean(url, S3Bucket(BUCKET))
        assert all(result.error is None for result in again), again
        assert contents(url) == expected, f"killed after {requests} requests"
        requests, deaths = requests + every, deaths + 1
    assert deaths * every > 40
