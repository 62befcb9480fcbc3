"""A fault of one name or one partition concerns nothing else in a log directory (S1.1, S1.11)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_tree
from tests.spark.runs import (
    NOW,
    add_partition,
    by_name,
    changes,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    settings,
)
from tests.unit.logdir.metadata_logs import log
from tests.unit.wire.metadata_values import partition, topic
from winnow.api import doctor, erase, explain, recover
from winnow.api import verify as verify_dirs
from winnow.kafka_log.source import every_record
from winnow.logdir.names import CLEAN_SHUTDOWN
from winnow.recovery.logs.run import recover_unclean
from winnow.recovery.logs.values import TruncateRequest
from winnow.start.values import Fate
from winnow.wire.metadata_records import uuid_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OTHERS = ("c-tomb-0", "d-time-0")
DIRECTORY_IDS = bytes([1] * 16), bytes([2] * 16)


def two_dirs(tmp_path: Path) -> list[Path]:
    """Two log directories of one broker. c-4p-0 is in both."""
    made = []
    for name, other, directory_id in zip("ab", OTHERS, DIRECTORY_IDS, strict=True):
        log_dir = new_log_dir(tmp_path / name)
        meta = log_dir / "meta.properties"
        kept = [line for line in meta.read_text().split() if not line.startswith("directory.id")]
        meta.write_text("\n".join([*kept, f"directory.id={uuid_text(directory_id)}\n"]))
        for partition_name in ("c-4p-0", other):
            add_partition(log_dir, partition_name, partition_name)
        made.append(log_dir)
    return made


def names(log_dirs: list[Path]) -> list[str]:
    return [str(log_dir) for log_dir in log_dirs]


def test_partition_in_two_directories_is_left_alone_and_the_others_are_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = two_dirs(tmp_path)
    before = files_of(tmp_path)
    for verb in (plan, clean):
        result = run(verb, spark, *log_dirs)
        left = [found for found in result.partitions if found.code is not None]
        assert [(found.name, found.log_dir) for found in left] == [
            ("c-4p-0", path) for path in names(log_dirs)
        ]
        assert {found.code for found in left} == {"in-two-directories"}
        for found in left:
            assert all(f"{path}/c-4p-0 (offsets " in found.why for path in names(log_dirs))
        assert {found.name for found in result.partitions if found.acts} == {*OTHERS}
        assert result.exit_code == 3
        assert run(verb, spark, *log_dirs, exclude=["c-4p"]).exit_code == 0
    changed = {path.split("/")[1] for path in changes(before, files_of(tmp_path))}
    assert {*OTHERS} <= changed
    assert "c-4p-0" not in changed


def test_looking_verbs_look_at_a_partition_in_two_directories(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = two_dirs(tmp_path)
    found = doctor(spark, names(log_dirs), settings=settings(), now=NOW)
    assert [trouble.topic for trouble in found.troubles] == ["c-4p", "c-4p"]
    assert [gain.what for gain in found.gains]
    assert found.exit_code == 3
    told = explain(spark, names(log_dirs), "c-4p-0", settings=settings(), now=NOW)
    assert "in two log directories of one broker" in str(told.error)
    assert explain(spark, names(log_dirs), "c-tomb-0", settings=settings(), now=NOW).error is None
    sweep = verify_dirs(spark, names(log_dirs))
    assert [(one.kind, one.log_dir, one.file) for one in sweep.findings] == [
        ("duplicate", path, "c-4p-0") for path in names(log_dirs)
    ]


def test_output_has_both_directories_unchanged_and_the_others_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = two_dirs(tmp_path)
    outputs = [str(tmp_path / f"out-{log_dir.name}") for log_dir in log_dirs]
    result = run(clean, spark, *log_dirs, output=outputs, work_space=2**20)
    left = [(one.name, one.log_dir) for one in result.partitions if one.code is not None]
    assert left == [("c-4p-0", path) for path in names(log_dirs)]
    assert all("two log directories" in one.why for one in result.partitions if one.code)
    assert {one.name for one in result.partitions if one.acts} == {*OTHERS}
    assert result.exit_code == 3
    for log_dir, output in zip(log_dirs, outputs, strict=True):
        copied = files_of(Path(output) / "c-4p-0")
        assert copied.keys() == files_of(log_dir / "c-4p-0").keys()


@pytest.mark.parametrize("meant", [0, 1])
def test_directory_that_the_controller_means_is_named(
    spark: SparkSession, tmp_path: Path, meant: int
) -> None:
    log_dirs = two_dirs(tmp_path)
    (log_dirs[0] / "__cluster_metadata-0").mkdir()
    directory = DIRECTORY_IDS[meant]
    log(log_dirs[0] / "__cluster_metadata-0", topic("c-4p"), partition(0, directory=directory))
    left = by_name(run(plan, spark, log_dirs[1], topics=["c-4p"]))["c-4p-0"]
    assert left.code != "in-two-directories"  # only one of the directories was given
    for found in run(plan, spark, *log_dirs, topics=["c-4p"]).partitions:
        assert f"The controller means {log_dirs[meant]}/c-4p-0" in found.why
        assert uuid_text(directory) in found.why
    errors = [one.error for one in recover(names(log_dirs)).partitions if one.topic == "c-4p"]
    sweep = verify_dirs(spark, names(log_dirs), topics=["c-4p"])
    messages = [one.message for one in sweep.findings if one.kind == "duplicate"]
    assert len(errors) == len(messages) == 2
    for text in (*errors, *messages):
        assert f"The controller means {log_dirs[meant]}/c-4p-0" in str(text)


def _mkdir(name: str) -> Callable[[Path], object]:
    return lambda log_dir: (log_dir / name).mkdir()


def _socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


STRANGERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "lost+found": ("lost+found", _mkdir("lost+found")),
    "a nested log directory": ("nested", lambda d: new_log_dir(d / "nested")),
    "a hidden directory": (".snapshots", _mkdir(".snapshots")),
    "a link to a directory": ("old", lambda d: (d / "old").symlink_to(d.parent)),
    "a copy": ("c-tomb-0.bak", lambda d: copy_tree(d / "c-tomb-0", d / "c-tomb-0.bak")),
    "a file in place of a partition": ("c-tomb-1", lambda d: (d / "c-tomb-1").touch()),
    "a socket in place of a partition": ("c-tomb-1", lambda d: _socket(d / "c-tomb-1")),
    "a link to nowhere": ("c-tomb-1", lambda d: (d / "c-tomb-1").symlink_to(d / "nowhere")),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_stranger_is_named_and_all_partitions_are_cleaned(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    log_dir = new_log_dir(tmp_path / "d")
    add_partition(log_dir, "c-tomb-0", "c-tomb-0")
    name, make = STRANGERS[kind]
    make(log_dir)
    before = files_of(log_dir)
    for verb in (plan, clean):
        result = run(verb, spark, log_dir)
        assert by_name(result)["c-tomb-0"].acts
        assert [text for text in result.strangers if f"{log_dir}/{name} is " in text]
        assert {*result.strangers} <= {*result.notes}
        assert (result.exit_code, result.status) == (3, "partial")
    assert {path.split("/")[0] for path in changes(before, files_of(log_dir))} == {
        "c-tomb-0",
        "cleaner-offset-checkpoint",
    }
    found = doctor(spark, [str(log_dir)], settings=settings(), now=NOW)
    assert (found.strangers, found.exit_code) == (result.strangers, 3)
    explained = explain(spark, [str(log_dir)], "c-tomb-0", settings=settings(), now=NOW)
    assert explained.error is None
    sweep = verify_dirs(spark, [str(log_dir)])
    assert [(one.kind, one.file) for one in sweep.findings] == [("name", name)]


def test_linked_partition_is_named_with_its_target_and_never_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = new_log_dir(tmp_path / "d")
    for name in OTHERS:
        add_partition(log_dir, name, name)
    target = tmp_path / "other" / "c-tomb-0"
    target.parent.mkdir()
    (log_dir / "c-tomb-0").rename(target)
    (log_dir / "c-tomb-0").symlink_to("../other/c-tomb-0")
    before = files_of(tmp_path)
    [finding] = verify_dirs(spark, [str(log_dir)]).findings
    assert (finding.kind, finding.is_damage) == ("link", False)
    assert finding.message == f"not checked: a symbolic link to {target}"
    assert "elete" not in finding.meaning
    [trouble] = doctor(spark, [str(log_dir)], settings=settings(), now=NOW).troubles
    assert f"a symbolic link to {target}." in trouble.reason
    result = by_name(run(clean, spark, log_dir))
    assert result["c-tomb-0"].code == "symbolic-link"
    assert result["d-time-0"].acts
    changed = changes(before, files_of(tmp_path))
    assert not [name for name in changed if "c-tomb-0" in name]


def test_erasure_is_not_complete_beside_a_stranger_or_a_second_directory(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = two_dirs(tmp_path)
    copy_tree(log_dirs[0] / "c-tomb-0", log_dirs[0] / "c-tomb-0.bak")
    records = every_record(spark, ["c-tomb"], [f"{log_dirs[0]}/c-tomb-0"])
    first = records.where("key is not null").orderBy("segment", "key").first()
    assert first is not None
    before = files_of(tmp_path)
    result = erase(spark, names(log_dirs), keys=[bytes(first["key"])])
    assert result.not_searched == (
        f"{log_dirs[0]}/c-tomb-0.bak: it is a directory whose name is not that of a partition",
    )
    left = [one for one in result.partitions if one.why_left_alone is not None]
    assert [(one.topic, one.log_dir) for one in left] == [
        ("c-4p", path) for path in names(log_dirs)
    ]
    erased = [one for one in result.partitions if one.proof is not None]
    assert [(one.topic, one.error) for one in erased] == [("c-tomb", None), ("d-time", None)]
    assert erased[0].erased is not None
    assert erased[0].erased.records > 0
    assert all(one.proof is not None and one.proof.holds for one in erased)
    assert (result.complete, result.exit_code) == (False, 3)
    changed = {name for name in changes(before, files_of(tmp_path)) if not name.endswith(".lock")}
    assert {name.split("/")[1] for name in changed} == {"c-tomb-0"}


def test_recovery_writes_no_marker_where_a_broker_does_not_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = two_dirs(tmp_path)
    (log_dirs[1] / "lost+found").mkdir()
    for log_dir in log_dirs:
        (log_dir / CLEAN_SHUTDOWN).unlink()
    request = TruncateRequest(settings=settings(), now=NOW, truncate=True)
    done = recover_unclean(spark, names(log_dirs), request)
    [start] = done.starts
    assert start.of_broker is Fate.STOPS
    for found, log_dir in zip(done.log_dirs, log_dirs, strict=True):
        assert not found.marked
        assert not (log_dir / CLEAN_SHUTDOWN).exists()
        errors = {log.name: log.error for log in found.logs}
        assert "in two log directories of one broker" in str(errors.pop("c-4p-0"))
        assert set(errors.values()) == {None}
    assert f"{log_dirs[1]}/lost+found is " in str(start.log_dirs[1].reasons)
    assert "c-4p-0 is in 2 directories" in str(start.reasons)
    repaired = recover(names(log_dirs))
    assert [one.topic for one in repaired.partitions if one.error] == ["c-4p", "c-4p"]
    assert (len(repaired.strangers), repaired.exit_code) == (1, 3)
