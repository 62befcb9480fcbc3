"""Names in files and names of files never lead a run out of its log directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.log_writer.dir_writer import LogDirWriter
from tests.spark.runs import (
    add_partition,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    run,
)
from tests.unit.logdir.metadata_logs import log
from tests.unit.wire.metadata_values import ID_A, ID_B, config, partition, topic
from winnow.errors import UsageError
from winnow.wire.metadata_records import uuid_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OUTSIDE = "../../x"
"""A topic that is, for a log directory two levels down, a partition directory beside it."""
ODD = ("a b-0", "x 0 5\ny-0", "\x1b[31mred-0", "..-0", ".-0", os.fsdecode(b"\xff-0"))
LEFTOVERS = (
    "..log",
    "..swap",
    "...cleaned",
    "\x1b[31m.log.swap",
    "00000000000000000000..swap",
    "00000000000000000000.log.swap.swap",
    "00000000000000000000.\n.cleaned",
    "99999999999999999999.log",
)
SETS = ("*:cleanup.policy=compact", "*:min.cleanable.dirty.ratio=0")


def test_run_stays_inside_its_log_directory(spark: SparkSession, tmp_path: Path) -> None:
    """Checkpoints and the metadata log name a topic whose path leads outside, to a directory that
    could be cleaned.
    """
    log_dir = new_log_dir(tmp_path / "below" / "logs")
    add_partition(log_dir, "c-tomb-0", "c-tomb-0")
    add_partition(log_dir, "out-0", "c-tomb-0").rename(tmp_path / "x-0")
    for name in ODD:
        add_partition(log_dir, "odd-0", "c-tomb-0").rename(log_dir / name)
    metadata = log_dir / "__cluster_metadata-0"
    metadata.mkdir()
    names = [topic("c-tomb"), partition(0), topic(OUTSIDE, ID_B), partition(0, ID_B)]
    log(
        metadata,
        *names,
        *(config(name, "cleanup.policy", "compact") for name in ("c-tomb", OUTSIDE)),
    )
    (log_dir / "c-tomb-0" / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {uuid_text(ID_A)}"
    )
    for file in ("cleaner", "log-start", "replication", "recovery-point"):
        (log_dir / f"{file}-offset-checkpoint").write_text(
            f"0\n3\n{OUTSIDE} 0 5\n.. 0 7\n/etc 0 9\n"
        )
    (log_dir / "replication-offset-checkpoint").write_text(f"0\n2\n{OUTSIDE} 0 5\nc-tomb 0 1000\n")
    before = files_of(tmp_path)

    result = run(clean, spark, log_dir, sets=SETS)

    tomb = by_name(result)["c-tomb-0"]
    assert tomb.actions == ("compacted",), tomb.reason
    assert set(by_name(result)) == {"c-tomb-0"}
    changed = {"/".join(name.split("/")[:3]) for name in changes(before, files_of(tmp_path))}
    assert changed == {
        f"below/logs/{name}" for name in ("c-tomb-0", "cleaner-offset-checkpoint", ".lock")
    }
    for name in ODD[:-1]:  # a broker does not see the last one, which is no UTF-8
        assert any(f"{log_dir}/{name} is skipped" in note for note in result.notes)
    entries = checkpoint(log_dir / "cleaner-offset-checkpoint")
    assert {name: entries[name] for name in (f"{OUTSIDE}-0", "..-0", "/etc-0")} == {
        f"{OUTSIDE}-0": 5,
        "..-0": 7,
        "/etc-0": 9,
    }
    assert len(entries) == 4


def test_leftovers_with_odd_names_are_refused_or_handled_in_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = new_log_dir(tmp_path / "below" / "logs")
    for number, name in enumerate(LEFTOVERS):
        (add_partition(log_dir, f"left-{number}", "c-tomb-0") / name).write_bytes(b"")
    before = files_of(tmp_path)
    results = by_name(run(clean, spark, log_dir, sets=SETS))
    for number, name in enumerate(LEFTOVERS):
        result = results[f"left-{number}"]
        assert result.left_alone or result.actions == ("compacted",), f"{name!r}: {result.reason}"
    changed = {"/".join(name.split("/")[:3]) for name in changes(before, files_of(tmp_path))}
    inside = {f"below/logs/left-{number}" for number in range(len(LEFTOVERS))}
    assert changed <= {*inside, "below/logs/cleaner-offset-checkpoint", "below/logs/.lock"}


def test_writer_makes_no_directory_outside(tmp_path: Path) -> None:
    with LogDirWriter(tmp_path / "below" / "logs", clock=lambda: 1) as writer:
        for name in (OUTSIDE, "..", "/x", "a b", ""):
            with pytest.raises(UsageError):
                writer.partition(name, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"below"}
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["logs"]
