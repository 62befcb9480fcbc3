"""Read states and records of a log directory with `winnow.read`, as a program of its own does."""

from __future__ import annotations

import sys
import time

import winnow
from tests.kafka.live.load import QUIET
from winnow.cli.session import started_spark

TOPICS = (QUIET, "c-lz4", "t-closed", "__transaction_state")


def main(log_dir: str) -> None:
    with started_spark(sql=True, quiet=True) as spark:
        for topic in TOPICS:
            winnow.read(spark, log_dir, topics=topic).count()
            winnow.read(spark, log_dir, topics=topic, as_of=int(time.time() * 1000)).count()


if __name__ == "__main__":
    main(sys.argv[1])
