"""Read states and records of a log directory with `winnow.read`, as a program of its own does."""

from __future__ import annotations

import sys
import time

import winnow
from winnow.cli.session import started_spark


def main(log_dirs: str, topics: str) -> None:
    with started_spark(sql=True, quiet=True) as spark:
        paths = log_dirs.split(",")
        for topic in topics.split(","):
            winnow.read(spark, paths, topics=topic).count()
            winnow.read(spark, paths, topics=topic, as_of=int(time.time() * 1000)).count()


if __name__ == "__main__":
    main(*sys.argv[1:])
