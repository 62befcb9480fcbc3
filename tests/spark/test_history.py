"""`history` on the command line, over a ledger of two cleanings and an erasure."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.runs import read_log
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import NOW
from tests.twins.walk import decode_batch
from winnow.cli.main import run as run_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = ("c-none-0", "d-size-0", "d-time-0")
LAG_MS = 30 * 86_400_000
BEFORE = 1_790_000_000_000
"""A clock at which nothing of d-time has expired yet."""
Command = Callable[..., Any]


@dataclass(frozen=True)
class Step:
    """A run as the machine saw it."""

    began: int
    ended: int
    freed: dict[str, int]


@dataclass(frozen=True)
class Told:
    log_dir: Path
    ledger: str
    steps: list[Step]
    command: Command

    def history(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.command("history", "--ledger", self.ledger, "--json", *words)
        )
        return found


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    scratch = tmp_path_factory.mktemp("history")
    log_dir, ledger = (
        copy_log_dir("clean", scratch / "log-dir", only=NAMES),
        str(scratch / "ledger"),
    )
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as streams:
        verbs_use(spark, patch)

        def command(*words: str) -> str:
            out = scratch / "out"
            with out.open("w", encoding="utf-8") as stream:
                streams.setattr("sys.stdout", stream)
                code = run_command(list(words))
                streams.undo()
            assert code in (0, 3)
            return out.read_text(encoding="utf-8")

        steps: list[Step] = []

        def step(verb: str, *words: str) -> None:
            before, began = bytes_of(log_dir), now_ms()
            command(verb, str(log_dir), "--ledger", ledger, "--quiet", *words)
            after = bytes_of(log_dir)
            steps.append(
                Step(began, now_ms(), {name: before[name] - after[name] for name in NAMES})
            )

        given = ["--topic-configs", str(TOPIC_CONFIGS), "--report", "none"]
        given += ["--topic-set", f"c-none:max.compaction.lag.ms={LAG_MS}"]
        step("clean", "--now", str(BEFORE), *given)
        step("clean", "--now", str(NOW), *given)
        key = next(record.key for record in read_log(log_dir / "d-size-0").records if record.key)
        (scratch / "keys").write_bytes(key + b"\nin no record\n")
        step("erase", "--keys", str(scratch / "keys"))
        yield Told(log_dir, ledger, steps, command)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def bytes_of(log_dir: Path) -> dict[str, int]:
    return {
        name: sum(log.stat().st_size for log in (log_dir / name).glob("*.log")) for name in NAMES
    }


def test_history_shows_freed_bytes_of_each_run(told: Told) -> None:
    history = told.history()
    second, first = history["runs"]
    for run, step in ((first, told.steps[0]), (second, told.steps[1])):
        assert (run["user"], run["host"]) == (getpass.getuser(), socket.gethostname())
        assert step.began <= run["started"] <= run["ended"] <= step.ended
        assert run["freed_bytes"] == sum(step.freed.values()) > 0
    assert history["freed_bytes"] == first["freed_bytes"] + second["freed_bytes"]
    # c-none by key and d-size by size at once; d-time only when its time had come.
    assert [run["cleaned"] for run in (first, second)] == [2, 1]
    assert [name for name, freed in told.steps[1].freed.items() if freed] == ["d-time-0"]
    (erasure,) = history["erasures"]
    assert (erasure["user"], erasure["proven"]) == (getpass.getuser(), True)
    assert (erasure["keys"], erasure["keys_found"], erasure["partitions"]) == (2, 1, 3)
    assert erasure["freed_bytes"] == sum(told.steps[2].freed.values()) > 0
    assert erasure["records_erased"] > 0


def test_history_shows_time_since_cleaning_and_due_partitions(told: Told) -> None:
    found = {p["topic"]: p for p in told.history()["partitions"]}
    second, first = told.history()["runs"]
    assert {topic: p["last_cleaned"] for topic, p in found.items()} == {
        "c-none": first["ended"],
        "d-size": first["ended"],
        "d-time": second["ended"],
    }
    assert {p["last_run"] for p in found.values()} == {second["ended"]}
    assert (
        found["c-none"]["due"]
        == first_timestamp(max((told.log_dir / "c-none-0").glob("*.log"))) + LAG_MS
    )
    assert found["d-size"]["due"] is None


def first_timestamp(log: Path) -> int:
    """Of the first batch of the active segment, the only one that is still dirty."""
    header, _ = decode_batch(log.read_bytes(), 0)
    return int(header["max_timestamp"])


def test_since_and_topics_filter_the_history(told: Told) -> None:
    since = told.history("--since", str(told.steps[1].began))
    assert len(since["runs"]) == len(since["erasures"]) == 1
    assert since["freed_bytes"] == sum(told.steps[1].freed.values())
    assert {p["topic"]: p["last_cleaned"] is None for p in since["partitions"]} == {
        "c-none": True,
        "d-size": True,
        "d-time": False,
    }
    some = told.history("--topics", "d-s*")
    assert [p["topic"] for p in some["partitions"]] == ["d-size"]
    assert some["freed_bytes"] == told.steps[0].freed["d-size-0"]
    assert some["erasures"][0]["freed_bytes"] == told.steps[2].freed["d-size-0"]
    nothing = told.history("--topics", "d-s*", "--since", str(told.steps[-1].ended + 1))
    assert (nothing["runs"], nothing["partitions"], nothing["erasures"]) == ([], [], [])


def test_ledger_with_erasures_only(told: Told, tmp_path: Path) -> None:
    shutil.copytree(f"{told.ledger}/erasures-v1", tmp_path / "erasures-v1")
    found: dict[str, Any] = json.loads(told.command("history", "--ledger", str(tmp_path), "--json"))
    assert (found["runs"], found["partitions"]) == ([], [])
    assert found["erasures"] == told.history()["erasures"]
