"""Clean a log directory in S3 and count the requests that the server receives.

By hand, over the whole recorded log directory, each request answered 30 ms late:

    .venv/bin/python -m tests.storage.request_counts --delay-ms 30
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import local_session
from tests.fixtures.data import copy_log_dir
from tests.spark.runs import NOW, clean, settings
from tests.storage.conftest import connected
from tests.storage.proxy import Proxy, Seen, proxy
from tests.storage.s3 import moto
from tests.storage.test_output import upload
from winnow.logdir.names import LOG
from winnow.storage.places import open_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Counted:
    """A run: what it changed, and its requests."""

    seconds: float
    requests: Sequence[Seen]
    changed_objects: int
    """Objects that were written, replaced or removed."""
    changed: frozenset[str]
    """Partitions with such an object."""
    unchanged: Mapping[str, int]
    """The other partitions, with how many segments each has."""
    errors: tuple[str, ...]

    def of(self, partition: str) -> list[Seen]:
        return [one for one in self.requests if partition in one.key.split("/")]

    @property
    def per_changed_object(self) -> float:
        """Requests to changed partitions, and all deletions, whose keys are in their body."""
        made = sum(len(self.of(name)) for name in self.changed)
        made += sum(one.kind == "DELETE" and not one.key for one in self.requests)
        return made / max(1, self.changed_objects)

    @property
    def per_unchanged_partition(self) -> dict[str, int]:
        return {name: len(self.of(name)) for name in self.unchanged}

    @property
    def per_run(self) -> int:
        """The others: of the log directory itself."""
        return sum(
            bool(one.key) and not {*self.changed, *self.unchanged} & {*one.key.split("/")}
            for one in self.requests
        )

    @property
    def most_in_flight(self) -> int:
        return max((one.in_flight for one in self.requests), default=0)

    def __str__(self) -> str:
        kinds = Counter(one.kind for one in self.requests)
        segments = sum(self.unchanged.values())
        return (
            f"{self.seconds:.1f} s, {len(self.requests)} requests "
            f"({', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}); "
            f"{self.changed_objects} changed objects, {self.per_changed_object:.2f} for each; "
            f"{len(self.unchanged)} unchanged partitions of {segments} segments, "
            f"{sum(self.per_unchanged_partition.values())} for these; {self.per_run} for the run; "
            f"at most {self.most_in_flight} in flight"
        )


def counted_run(
    spark: SparkSession, url: str, counting: Proxy, *, summaries: Path | None = None
) -> Counted:
    """Clean `url`, which is behind `counting`. `summaries`: the directory for key summaries."""
    before, first = _objects(url), len(counting.requests())
    began = time.monotonic()
    result = clean(
        spark,
        [url],
        settings=settings(),
        now=NOW,
        key_summaries=None if summaries is None else str(summaries),
        least_summed_up=1,
    )
    seconds = time.monotonic() - began
    requests = counting.requests()[first:]
    after = _objects(url)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    partitions = {f"{one.topic}-{one.partition}" for one in result.partitions}
    touched = {name.split("/")[0] for name in changed} & partitions
    return Counted(
        seconds,
        requests,
        len(changed),
        frozenset(touched),
        {
            name: sum(key.startswith(f"{name}/") and key.endswith(LOG) for key in after)
            for name in partitions - touched
        },
        tuple(one.error for one in result.partitions if one.error is not None),
    )


def _objects(url: str) -> dict[str, object]:
    return {file.name: (file.size, file.stamp) for file in open_tree(url).list_tree()}


def shapes(requests: Sequence[Seen]) -> Counter[tuple[str, str]]:
    """Return how many requests of each kind went to each sort of key."""
    return Counter((one.kind, _shape(one.key)) for one in requests)


def _shape(key: str) -> str:
    *directories, name = key.rstrip("/").split("/")
    where = "staged " if any(one.startswith(".winnow-") for one in directories) else ""
    if name[:20].isdigit():
        name = f"N.{name[20:].split('.')[1]}"
    elif not name.startswith(".") and name.rpartition("-")[2].isdigit():
        name = "(partition)"
    elif name.startswith(".winnow-") and len(name) > len(".winnow-") + 20:
        name = "(staging)"
    return where + name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shapes", action="store_true", help="print what the requests were for")
    given = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        home = Path(name)
        source = copy_log_dir("clean", home / "source")
        with moto(home) as server, proxy(server, home, delay_ms=given.delay_ms) as counting:
            url = f"{connected(server, patch)}/broker"
            upload(source, url)
            spark = local_session()
            connected(counting.url, patch)
            for number in range(given.runs):
                run = counted_run(spark, url, counting)
                told = [f"run {number + 1}: {run}", *run.errors]
                if given.shapes:
                    told += [
                        f"  {count:6} {kind:6} {shape}"
                        for (kind, shape), count in shapes(run.requests).most_common()
                    ]
                sys.stdout.write("\n".join([*told, ""]))
            spark.stop()


if __name__ == "__main__":
    main()
