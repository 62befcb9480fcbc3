"""Run `clean` as the user of this process: `python -m tests.spark.as_user LOG_DIR...`. Writes a
line of JSON for each log directory.

The last log directory is cleaned once while every state is kept that a kill could have left. Then
the same user cleans some of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import local_session
from tests.crash.snapshots import Snapshots
from tests.fixtures.data import copy_tree
from tests.spark.runs import by_name, clean, files_of, run, stray_files
from winnow.errors import WinnowError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CRASHES = 12


def told(spark: SparkSession, log_dir: Path) -> dict[str, Any]:
    try:
        result = run(clean, spark, log_dir)
    except WinnowError as error:
        return {"raised": str(error)}
    return {
        "exit_code": result.exit_code,
        "partitions": {
            name: {"actions": p.actions, "reason": p.reason, "error": p.error}
            for name, p in by_name(result).items()
        },
    }


def crashes(spark: SparkSession, log_dir: Path) -> dict[str, Any]:
    whole, killed = log_dir.parent / "whole", log_dir.parent / "killed"
    killed.mkdir()
    copy_tree(log_dir, whole)
    storage = Snapshots(whole, killed)
    assert run(clean, spark, whole, storage=storage).exit_code == 0
    wanted = content(whole)
    points = storage.points[:: max(1, len(storage.points) // CRASHES)]
    different = [
        point.label
        for point in points
        if run(clean, spark, point.root).exit_code
        or content(point.root) != wanted
        or stray_files(point.root)
    ]
    return {"tried": len(points), "different": different}


def content(log_dir: Path) -> dict[str, str | None]:
    return {name: file and file.digest for name, file in files_of(log_dir).items()}


def main(log_dirs: list[Path]) -> None:
    spark = local_session()
    for log_dir in log_dirs[:-1]:
        sys.stdout.write(f"{json.dumps(told(spark, log_dir))}\n")
    sys.stdout.write(f"{json.dumps(crashes(spark, log_dirs[-1]))}\n")
    spark.stop()


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
