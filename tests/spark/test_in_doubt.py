"""A log directory that is not certain to be the broker's concerns only itself (S1.2): verbs that
look look at the others, and `clean` leaves it alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS
from tests.session import verbs_use
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
from winnow.api import doctor, explain, recover
from winnow.api import verify as verify_dirs
from winnow.cli.main import run as command
from winnow.errors import UsageError
from winnow.logdir.names import CLEAN_SHUTDOWN, META_PROPERTIES, UNFINISHED
from winnow.recovery.logs.run import recover_unclean
from winnow.recovery.logs.values import TruncateRequest
from winnow.start.values import Fate
from winnow.storage.contract import COMMIT_RECORD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OTHERS = ("c-tomb-0", "d-time-0")


def three(tmp_path: Path) -> list[Path]:
    """Three log directories of one broker. The third one is the one to damage."""
    made = [new_log_dir(tmp_path / name) for name in "abc"]
    for log_dir, name in zip(made, (*OTHERS, "c-4p-0"), strict=True):
        add_partition(log_dir, name, name)
    return made


def names(log_dirs: list[Path]) -> list[str]:
    return [str(log_dir) for log_dir in log_dirs]


def _meta(text: str) -> Callable[[Path], object]:
    return lambda log_dir: (log_dir / META_PROPERTIES).write_text(text)


def _file(log_dir: Path) -> None:
    shutil.rmtree(log_dir)
    log_dir.write_text("hello")


DOUBTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "no such directory": ("no such directory", shutil.rmtree),
    "no meta.properties": ("meta.properties", lambda d: (d / META_PROPERTIES).unlink()),
    "emptied": ("without an owner", _meta("")),
    "malformed": ("meta.properties is invalid", _meta("version=x\n")),
    "no node id": ("node.id None", _meta("version=1\ncluster.id=c\n")),
    "another cluster": ("another cluster", _meta("version=1\nnode.id=1\ncluster.id=other\n")),
    "a file": ("a file", _file),
}


@pytest.mark.parametrize("kind", DOUBTS)
def test_directory_in_doubt_is_left_alone_and_the_others_are_looked_at_and_cleaned(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    log_dirs = three(tmp_path)
    words, damage = DOUBTS[kind]
    damage(log_dirs[2])
    before = files_of(tmp_path)
    found = doctor(spark, names(log_dirs), settings=settings(), now=NOW)
    assert [text for text in found.strangers if words in text and str(log_dirs[2]) in text]
    assert [disk.log_dir for disk in found.disks] == names(log_dirs[:2])
    assert found.exit_code == 3
    [start] = found.starts
    assert start.fate.harm >= Fate.OFFLINE.harm
    told = explain(spark, names(log_dirs), "c-tomb-0", settings=settings(), now=NOW)
    assert told.error is None
    assert [note for note in told.notes if f"{log_dirs[2]} is left alone" in note]
    for verb in (plan, clean):
        result = run(verb, spark, *log_dirs)
        assert {name for name, one in by_name(result).items() if one.acts} == {*OTHERS}
        assert [text for text in result.strangers if words in text and str(log_dirs[2]) in text]
        assert (result.exit_code, result.status) == (3, "partial")
    changed = changes(before, files_of(tmp_path))
    assert not [name for name in changed if name.startswith("c/")]
    sweep = verify_dirs(spark, names(log_dirs))
    assert {one.log_dir for one in sweep.findings} <= {str(log_dirs[2])}
    assert sweep.findings or kind == "another cluster"  # whose directory is sound in itself
    assert sweep.checked.partitions >= 2
    assert sweep.exit_code == 4


def test_saved_plan_beside_a_directory_in_doubt_does_what_clean_would(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs_use(spark, monkeypatch)
    log_dirs = three(tmp_path)
    (log_dirs[2] / META_PROPERTIES).unlink()
    saved, before = tmp_path / "plan.json", files_of(log_dirs[2])
    words = ["--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW), "--no-ledger", "--quiet"]
    assert command(["plan", *names(log_dirs), *words, "--out", str(saved)]) == 3
    assert command(["apply", str(saved), "--no-ledger", "--report", "none", "--quiet"]) == 3
    again = by_name(run(plan, spark, *log_dirs))
    assert not [one for one in again.values() if one.acts]
    assert files_of(log_dirs[2]) == before


def test_partition_that_is_also_in_a_directory_in_doubt_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = three(tmp_path)
    add_partition(log_dirs[2], "c-tomb-0", "c-tomb-0")
    (log_dirs[2] / META_PROPERTIES).unlink()
    result = run(clean, spark, *log_dirs)
    found = {one.log_dir: one for one in result.partitions if one.name == "c-tomb-0"}
    assert found[str(log_dirs[0])].code == "in-two-directories"
    assert [one.name for one in result.partitions if one.acts] == ["d-time-0"]


def test_nothing_is_changed_where_two_clusters_have_equally_many_directories(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dirs = three(tmp_path)[1:]
    DOUBTS["another cluster"][1](log_dirs[1])
    with pytest.raises(UsageError, match=r"different cluster\.id"):
        run(clean, spark, *log_dirs)
    looked = run(plan, spark, *log_dirs)
    assert by_name(looked)["d-time-0"].acts
    assert looked.exit_code == 3


def test_recovery_recovers_the_others(spark: SparkSession, tmp_path: Path) -> None:
    log_dirs = three(tmp_path)
    for log_dir in log_dirs:
        (log_dir / CLEAN_SHUTDOWN).unlink()
    (log_dirs[2] / META_PROPERTIES).unlink()
    before = files_of(log_dirs[2])
    repaired = recover(names(log_dirs))
    assert [text for text in repaired.strangers if str(log_dirs[2]) in text]
    assert repaired.exit_code == 3
    request = TruncateRequest(settings=settings(), now=NOW, truncate=True)
    done = recover_unclean(spark, names(log_dirs), request)
    assert [one.path for one in done.log_dirs if one.error is None] == names(log_dirs[:2])
    assert [one.path for one in done.log_dirs if one.error is not None] == names(log_dirs[2:])
    assert str(log_dirs[2]) not in done.clean
    assert done.exit_code != 0
    assert files_of(log_dirs[2]) == before


def test_without_any_sound_directory_it_is_a_mistake(spark: SparkSession, tmp_path: Path) -> None:
    log_dirs = three(tmp_path)
    for log_dir in log_dirs:
        (log_dir / META_PROPERTIES).unlink()
    with pytest.raises(UsageError, match="not a Kafka log directory"):
        run(plan, spark, *log_dirs)


def _linked(log_dir: Path) -> None:
    meta = log_dir / META_PROPERTIES
    meta.rename(log_dir.parent / META_PROPERTIES)
    meta.symlink_to(log_dir.parent / META_PROPERTIES)


def _unreadable(log_dir: Path) -> None:
    (log_dir / META_PROPERTIES).unlink()
    (log_dir / META_PROPERTIES).mkdir()


OUTPUT_DOUBTS = {
    **{kind: DOUBTS[kind] for kind in ("no such directory", "malformed", "another cluster")},
    "a linked file": ("symbolic link", _linked),
    "an unreadable file": ("meta.properties", _unreadable),
    "a link in a partition": ("symbolic link", lambda d: (d / "c-4p-0" / "x").symlink_to("y")),
    "an interrupted run": ("interrupted", lambda d: (d / "c-4p-0" / COMMIT_RECORD).touch()),
}


@pytest.mark.parametrize("kind", OUTPUT_DOUBTS)
def test_output_is_written_for_the_others(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    log_dirs = three(tmp_path)
    words, damage = OUTPUT_DOUBTS[kind]
    damage(log_dirs[2])
    before = files_of(tmp_path)
    outputs = [tmp_path / f"out-{log_dir.name}" for log_dir in log_dirs]
    result = run(clean, spark, *log_dirs, output=names(outputs))
    assert {name for name, one in by_name(result).items() if one.acts} == {*OTHERS}
    [stranger] = result.strangers
    assert stranger.startswith(f"{log_dirs[2]} is left alone: ")
    assert words in stranger
    assert (result.exit_code, result.status) == (3, "partial")
    assert not [text for text in (*result.notes, stranger) if ".winnow-work" in text]
    [left_out] = [note for note in result.notes if "was left out" in note]
    assert f"so {outputs[2]} is no log directory" in left_out
    lacks = "1 partition: c-4p-0. Start no broker"
    assert ("the output lacks its partitions." in left_out) == (lacks not in left_out)
    assert (lacks in left_out) == (kind not in {"no such directory", "another cluster"})
    for one in result.partitions:
        if one.log_dir == str(log_dirs[2]):
            assert words in str(one.error)
    for output in outputs[:2]:
        assert (output / META_PROPERTIES).is_file()
        assert not (output / UNFINISHED).exists()
    assert [path.name for path in outputs[2].iterdir() if path.name != ".lock"] == [UNFINISHED]
    assert words in json.loads((outputs[2] / UNFINISHED).read_text())["left_out"]
    assert {
        name for name in changes(before, files_of(tmp_path)) if not name.startswith("out-")
    } == set()


def test_output_of_a_directory_in_doubt_can_be_written_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also, a partition that is in another directory, too, is copied and not cleaned."""
    log_dirs = three(tmp_path)
    for log_dir in log_dirs[::2]:
        add_partition(log_dir, "c-none-0", "c-none-0")
    meta = (log_dirs[2] / META_PROPERTIES).read_bytes()
    (log_dirs[2] / META_PROPERTIES).unlink()
    outputs = [tmp_path / f"out-{log_dir.name}" for log_dir in log_dirs]
    result = run(clean, spark, *log_dirs, output=names(outputs))
    found = {one.log_dir: one for one in result.partitions if one.name == "c-none-0"}
    copy = found[str(log_dirs[0])]
    assert copy.code == "in-two-directories"
    assert f"{log_dirs[2]}/c-none-0 (not read)" in str(copy.error)
    for path in (log_dirs[0] / "c-none-0").iterdir():
        assert (outputs[0] / "c-none-0" / path.name).read_bytes() == path.read_bytes()
    (log_dirs[2] / META_PROPERTIES).write_bytes(meta)
    later = run(clean, spark, log_dirs[2], output=names(outputs[2:]), begin_again=True)
    assert later.exit_code == 0
    assert {*by_name(later)} == {"c-4p-0", "c-none-0"}
    assert (outputs[2] / "c-4p-0").is_dir()


def test_output_of_nothing_but_doubts_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    log_dirs = three(tmp_path)
    for log_dir in log_dirs:
        (log_dir / META_PROPERTIES).unlink()
    outputs = names([tmp_path / f"out-{log_dir.name}" for log_dir in log_dirs])
    with pytest.raises(UsageError, match="not a Kafka log directory"):
        run(clean, spark, *log_dirs, output=outputs)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("out-")]
