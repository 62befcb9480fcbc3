"""What the broker's user may have put into a preparation before it is committed, perhaps by root:
the partition keeps its log, the others are committed, and nothing is waited for (S8.12).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.deep import deep_directory
from tests.fixtures.data import copy_tree
from tests.spark.preparing import CHANGED, OTHER, committed, prepared_copy, results, staged
from tests.spark.runs import files_of
from winnow.cleaning.prepared.existing import existing_in
from winnow.logdir.names import PREPARED
from winnow.logdir.survey import survey_log_dirs
from winnow.storage.places import Places

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def ready(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with preparations."""
    return prepared_copy(spark, tmp_path_factory.mktemp("ready") / "log-dir")


@pytest.fixture
def log_dir(ready: Path, tmp_path: Path) -> Path:
    copy_tree(ready, tmp_path / "log-dir")
    return tmp_path / "log-dir"


def staging_of(log_dir: Path) -> Path:
    (staging,) = staged(log_dir)[CHANGED]
    return staging


def staged_log(log_dir: Path) -> Path:
    return max(staging_of(log_dir).glob("*.log.*"), key=lambda log: log.stat().st_size)


def link(log: Path) -> None:
    log.rename(log.parent.parent.parent / "elsewhere")
    log.symlink_to(log.parent.parent.parent / "elsewhere")


def pipe(log: Path) -> None:
    log.unlink()
    os.mkfifo(log)


def directory(log: Path) -> None:
    log.unlink()
    log.mkdir()


def second_name(log: Path) -> None:
    os.link(log, log.parent.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (link, "a symbolic link"),
        (pipe, "a named pipe"),
        (directory, "a directory"),
        (second_name, "2 names"),
    ],
)
def test_only_a_regular_file_with_one_name_becomes_part_of_the_log(
    log_dir: Path, change: Callable[[Path], None], found: str
) -> None:
    change(staged_log(log_dir))
    assert found in why_dropped(log_dir)


def why_dropped(log_dir: Path) -> str:
    """Commit; only CHANGED stays as it is."""
    before = own_files(log_dir)
    done = committed(log_dir)
    told = results(done)
    assert done.exit_code == 3
    assert own_files(log_dir) == before
    assert told[OTHER].actions == ("compacted",)
    assert told[CHANGED].left_alone
    return told[CHANGED].why


def own_files(log_dir: Path) -> dict[str, object]:
    """The files of the partition that are not Winnow's."""
    return {
        path.name: path.read_bytes() for path in (log_dir / CHANGED).iterdir() if path.is_file()
    }


def group(value: dict[str, Any]) -> Any:
    return next(one for one in value["groups"] if one["files"])


def same_name(value: dict[str, Any]) -> None:
    files = group(value)["files"]
    files[".index"] = files[".timeindex"]


def other_suffix(value: dict[str, Any]) -> None:
    files = group(value)["files"]
    files["/../../x"] = files[".index"]


def above(value: dict[str, Any]) -> None:
    group(value)["files"][".log"]["name"] = ".."


def of_another_segment(value: dict[str, Any]) -> None:
    group(value)["files"][".log"]["name"] = PREPARED


def with_active_segment(value: dict[str, Any]) -> None:
    last = value["groups"][-1]
    last["sources"].append(value["beside"].pop())
    last["stamps"].append(last["stamps"][0])
    last["checksums"].append(last["checksums"][0])
    value["round"]["end_offset"] = value["log_end_offset"]


JSON: dict[str, Callable[[dict[str, Any]], object]] = {
    "two files of one name": same_name,
    "an index is missing": lambda v: group(v)["files"].pop(".timeindex"),
    "a file of another kind": other_suffix,
    "a name that leads upwards": above,
    "a name of something else": of_another_segment,
    "groups that overlap": lambda v: v["groups"].append(v["groups"][0]),
    "the active segment": with_active_segment,
    "an end above the log": lambda v: v["round"].update(end_offset=10**12),
    "an end above the active segment": lambda v: v["round"].update(end_offset=v["log_end_offset"]),
    "a text for a number": lambda v: v.update(now="0"),
    "another field": lambda v: v.update(other=1),
    "a setting that no topic has": lambda v: v["settings"].update(x="1"),
    "deep": lambda v: v.update(only=json.loads("[" * 500 + "]" * 500)),
}


@pytest.mark.parametrize("name", JSON)
def test_tampered_record_is_refused(log_dir: Path, name: str) -> None:
    path = staging_of(log_dir) / PREPARED
    value = json.loads(path.read_text())
    JSON[name](value)
    path.write_text(json.dumps(value))
    assert why_dropped(log_dir)


def sparse(path: Path) -> None:
    path.unlink()
    with path.open("wb") as file:
        file.truncate(2**26 + 1)


def no_file(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def padded(path: Path) -> None:
    """As written, but larger than for any partition with these files."""
    path.write_text(path.read_text() + " " * 2**20)


@pytest.mark.parametrize("change", [sparse, no_file, padded])
def test_record_that_is_no_small_file_is_refused(
    log_dir: Path, change: Callable[[Path], None]
) -> None:
    change(staging_of(log_dir) / PREPARED)
    assert "can't be read" in why_dropped(log_dir)


@pytest.mark.parametrize("field", ["topic_configs", "server_properties"])
@pytest.mark.parametrize("kind", ["device", "pipe", "large"])
def test_settings_are_read_again_only_from_regular_files(
    log_dir: Path, tmp_path: Path, field: str, kind: str
) -> None:
    """A pipe that nobody writes to would hold up the start of a broker."""
    source = Path("/dev/zero") if kind == "device" else tmp_path / "source"
    if kind == "pipe":
        os.mkfifo(source)
    if kind == "large":
        with source.open("wb") as file:
            file.truncate(2**31)
    path = staging_of(log_dir) / PREPARED
    value = json.loads(path.read_text())
    value["asked"][field] = [str(source)] if field == "server_properties" else str(source)
    path.write_text(json.dumps(value))
    assert str(source) in why_dropped(log_dir)


def test_partition_directory_behind_a_link_is_left_and_others_are_committed(
    log_dir: Path, tmp_path: Path
) -> None:
    (log_dir / CHANGED).rename(tmp_path / "moved")
    (log_dir / CHANGED).symlink_to(tmp_path / "moved")
    told = results(committed(log_dir))
    assert told[OTHER].actions == ("compacted",)
    assert CHANGED not in told or told[CHANGED].failed
    assert [*(tmp_path / "moved").glob(f".winnow-*/{PREPARED}")]


def test_preparation_of_another_partition_is_dropped(log_dir: Path) -> None:
    """Of the same topic, with its bytes and stamps of another log."""
    other = log_dir / "c-tomb-1"
    copy_tree(log_dir / OTHER, other)
    shutil.copy(log_dir / CHANGED / "partition.metadata", other)
    for staging in other.glob(".winnow-*"):
        shutil.rmtree(staging)
    copy_tree(staging_of(log_dir), other / staging_of(log_dir).name)
    before = files_of(other)
    told = results(committed(log_dir))
    assert told["c-tomb-1"].left_alone
    assert told["c-tomb-1"].why.startswith("the preparation was dropped")
    assert {n: f for n, f in before.items() if not n.startswith(".winnow")} == files_of(other)
    assert (told[CHANGED].actions, told[OTHER].actions) == (("compacted",),) * 2


def test_partition_in_two_log_directories_is_left(log_dir: Path, tmp_path: Path) -> None:
    """A broker refuses to start on them. Nobody knows which of the two is the log."""
    second = tmp_path / "second"
    copy_tree(log_dir, second)
    shutil.rmtree(second / OTHER)
    before = files_of(log_dir / CHANGED), files_of(second / CHANGED)
    done = committed(log_dir, second)
    assert [one.actions for one in done.partitions if one.name == CHANGED] == [("none",)] * 2
    assert (files_of(log_dir / CHANGED), files_of(second / CHANGED)) == before
    assert [one.actions for one in done.partitions if one.name == OTHER] == [("compacted",)]


def test_interrupted_removal_is_removed_without_a_word(log_dir: Path) -> None:
    for partition in (CHANGED, OTHER):
        (staging,) = staged(log_dir)[partition]
        staging.rename(f"{staging}.gone")
    done = committed(log_dir)
    assert (done.exit_code, done.partitions) == (0, ())
    assert not [*log_dir.glob("*/.winnow*")]


def test_newest_of_two_preparations_is_committed(log_dir: Path) -> None:
    staging = staging_of(log_dir)
    older = staging.with_name(".winnow-20200101T000000Z-00000000")
    copy_tree(staging, older)
    value = json.loads((older / PREPARED).read_text())
    value["run_id"], value["taken"]["wall_ms"] = (
        "20200101T000000Z-00000000",
        value["taken"]["wall_ms"] - 1,
    )
    (older / PREPARED).write_text(json.dumps(value))
    assert committed(log_dir).exit_code == 0
    assert not [*log_dir.glob("*/.winnow*")]


def test_few_preparations_of_a_partition_are_read(log_dir: Path) -> None:
    """A broker waits for a commit. Its user could make any number of them."""
    path = staging_of(log_dir)
    for number in range(40):
        shutil.copytree(path, f"{path}"[:-8] + f"{number:08x}", copy_function=os.link)
    (home,) = survey_log_dirs(Places(), [str(log_dir)])
    (at,) = [at for at in home.partitions if str(at) == CHANGED]
    found = list(existing_in(Places(), home, at))
    assert len(found) == 41
    too_many = [one.problem for one in found if "more than 16 preparations" in (one.problem or "")]
    assert len(too_many) == 41 - 16


def test_commit_removes_1500_nested_directories_in_staging(log_dir: Path) -> None:
    """Python can't call itself so often."""
    at = staging_of(log_dir)
    (at / PREPARED).unlink()
    with deep_directory(at):
        pass
    assert committed(log_dir).exit_code == 0
    assert not [*log_dir.glob("*/.winnow*")]
