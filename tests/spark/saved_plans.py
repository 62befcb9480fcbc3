"""A log directory and a plan of it, in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.spark.runs import NOW
from winnow.cli.main import run

QUIET = ("--no-ledger", "--report", "none", "--quiet")
PARTITIONS = ("c-tomb-0", "d-size-0", "d-time-0", "t-closed-0")


class Place:
    """A log directory, files of settings, and a plan."""

    def __init__(self, root: Path) -> None:
        self.log_dir = copy_log_dir("clean", root / "d", only=PARTITIONS)
        self.configs = root / "topic-configs.txt"
        self.configs.write_bytes(TOPIC_CONFIGS.read_bytes())
        self.file = root / "plan.json"

    def plan(self, *more: str, verb: str = "plan") -> int:
        words = ["--topic-configs", str(self.configs), "--now", str(NOW), "--no-ledger", "--quiet"]
        return run([verb, str(self.log_dir), *words, "--out", str(self.file), *more])

    def apply(self, *more: str) -> int:
        return run(["apply", str(self.file), *QUIET, *more])

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        told = json.loads(self.file.read_text())
        change(told)
        self.file.write_text(json.dumps(told))
