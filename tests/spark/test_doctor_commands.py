"""Every command that `doctor` prints is run as it is printed, word for word."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.disks import disk_or_skip, fill
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import NOW, changes, clean, files_of, run
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.cli.main import run as run_command
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import CLEAN_SHUTDOWN
from winnow.verbs.doctor import unknown_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KNOWN = ["--topic-configs", str(TOPIC_CONFIGS)]
Command = Callable[..., tuple[int, str]]
_RAN = {0, 3, 4, 6}
"""Not 1, an unexpected error, and not 2, a wrong command."""


@pytest.fixture
def command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    verbs_use(spark, monkeypatch)

    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command(list(words))
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


def follow(command: Command, *asked: str) -> list[str]:
    """Run `doctor`, and each command it prints. Return the verbs."""
    _, page = command("doctor", *asked, "--all")
    printed = [line.strip() for line in page.splitlines() if line.startswith("  ./spark-submit")]
    for line in printed:
        words = shlex.split(line)
        assert not {"FILE", "DIR"} & {*words}, line
        code, said = command(*words[1:])
        assert code in _RAN, f"{line}\n{said}"
    return [shlex.split(line)[1] for line in printed]


def unknown(tmp_path: Path, _spark: SparkSession) -> list[str]:
    log_dir = copy_log_dir("clean", tmp_path / "a log dir", only=["c-*", "d-*", "t-*"])
    (log_dir / "d-time-0").rename(log_dir / "it's a $(topic)-0")
    (log_dir / "d-size-0").rename(log_dir / "a:b-0")
    return [str(log_dir)]


def crashed(tmp_path: Path, spark: SparkSession) -> list[str]:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0", "d-size-0"])
    run(clean, spark, log_dir, only="retention", keep_replaced=True)
    (log_dir / CLEAN_SHUTDOWN).unlink()
    (log_dir / "c-none-0" / f"{0:020d}.log.deleted").write_bytes(bytes(100))
    return [str(log_dir), *KNOWN]


def damaged(tmp_path: Path, _spark: SparkSession) -> list[str]:
    log_dir = copy_log_dir("damaged", tmp_path / "logs", only=["x-torn-0"])
    return [str(log_dir), "--topic-set", "x-*:cleanup.policy=compact"]


def held_back(tmp_path: Path, _spark: SparkSession) -> list[str]:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["t-open-0", "c-lz4-0"])
    other = copy_log_dir("clean", tmp_path / "other", only=["c-none-0"])
    return [str(log_dir), str(other), *KNOWN]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (unknown, {"plan"}),
        (crashed, {"clean", "recover"}),
        (damaged, {"verify"}),
        (held_back, {"clean", "explain", "doctor"}),
    ],
)
def test_each_printed_command_runs(
    make: Callable[[Path, SparkSession], list[str]],
    expected: set[str],
    spark: SparkSession,
    tmp_path: Path,
    command: Command,
) -> None:
    assert {*follow(command, *make(tmp_path, spark), "--now", str(NOW))} >= expected


def test_compaction_without_space_goes_to_a_disk_that_exists(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("winnow.verbs.doctor.other_disk._USUAL", (str(tmp_path),))
    monkeypatch.setattr("winnow.verbs.doctor.other_disk._MOUNTS", tmp_path / "none")
    with disk_or_skip(tmp_path / "disk", mib=16) as disk:
        log_dir = copy_log_dir("clean", disk / "logs", only=["c-none-0"])
        second = copy_log_dir("clean", disk / "second", only=["c-tomb-0"])
        fill(disk)
        verbs = follow(command, str(log_dir), str(second), *KNOWN, "--now", str(NOW))
    assert "clean" in verbs
    assert (tmp_path / "winnow-output-1" / "c-none-0").is_dir()


def test_unknown_settings_name_topics_and_files_of_this_machine_that_exist(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, gone = tmp_path / "server.properties", tmp_path / "gone.properties"
    here.write_text("this is never read\n")
    os.chmod(here, 0)
    monkeypatch.setattr(unknown_settings, "_USUAL_FILES", (str(here), str(gone)))
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0", "d-time-0"])
    _, page = command("doctor", str(log_dir), "--all")
    text = " ".join(page.split())
    assert "--topic-set d-time:cleanup.policy= " in text
    assert f"On this machine: {here}." in text
    assert str(gone) not in text
    assert "Strimzi (KafkaTopic)" in text


def test_settings_of_a_broker_with_zookeeper_are_looked_for_there(
    tmp_path: Path, command: Command
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0"])
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=c\n")
    _, page = command("doctor", str(log_dir), "--all")
    text = " ".join(page.split())
    assert "They may be found in ZooKeeper (`zookeeper-shell.sh HOST:2181 get /config/top" in text
    assert "__cluster_metadata-0 of another node" not in text
    follow(command, str(log_dir))


def test_commands_take_the_directories_of_one_broker_where_they_must(
    tmp_path: Path, command: Command
) -> None:
    log_dirs = [copy_log_dir("clean", tmp_path / name, only=["t-open-0"]) for name in "ab"]
    meta = log_dirs[1] / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    verbs = follow(command, *map(str, log_dirs), *KNOWN, "--now", str(NOW))
    assert "explain" in verbs


def test_stranger_is_named_once(tmp_path: Path, command: Command) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0"])
    (log_dir / "lost+found").mkdir()
    _, page = command("doctor", str(log_dir), *KNOWN, "--now", str(NOW), "--all")
    assert " ".join(page.split()).count("lost+found is ") == 1


def test_recover_does_not_say_that_nothing_was_changed_after_it_removed_files(
    tmp_path: Path, command: Command
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0"])
    (log_dir / CLEAN_SHUTDOWN).unlink()
    left = log_dir / "c-none-0" / f"{0:020d}.log.deleted"
    left.write_bytes(bytes(100))
    _, would = command("recover", str(log_dir), *KNOWN, "--dry-run")
    assert "Nothing was changed." in would
    assert left.exists()
    _, said = command("recover", str(log_dir), *KNOWN)
    assert f"removed: {left.name}" in said
    assert "Nothing else was changed." in said
    _, again = command("recover", str(log_dir), *KNOWN)
    assert "Nothing was changed." in again


@pytest.mark.parametrize(
    ("of_broker", "options"),
    [
        ("log.retention.bytes=100\nlog.retention.ms=1\nlog.local.retention.bytes=1", []),
        ("log.cleanup.policy=compact\nlog.cleaner.min.cleanable.ratio=0", []),
        ("log.retention.hours=1", ["--topic-set", "*:retention.bytes=1"]),
        (
            "log.cleanup.policy=compact,delete\nlog.retention.ms=1",
            ["--set", "log.retention.bytes=1"],
        ),
        (None, ["--topic-set", "*:cleanup.policy=delete"]),
    ],
)
def test_command_for_unknown_settings_keeps_every_record_whatever_the_broker_has(
    of_broker: str | None, options: list[str], tmp_path: Path, command: Command
) -> None:
    """As it is printed, and as `clean`. Once more after somebody found a server.properties."""
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["d-time-0", "d-size-0", "c-none-0"])
    file, deletes = tmp_path / "server.properties", tmp_path / "deletes.properties"
    file.write_text(f"node.id=1\n{of_broker}\n")
    deletes.write_text("node.id=1\nlog.retention.bytes=1\nlog.retention.ms=1\n")
    given = [] if of_broker is None else ["--server-properties", str(file)]
    before = files_of(log_dir)
    _, page = command("doctor", str(log_dir), *options, *given, "--now", str(NOW), "--all")
    (printed,) = (shlex.split(line) for line in page.splitlines() if "submit.sh plan" in line)
    assert "this keeps all records of 3 topics" in " ".join(page.split())
    words, now = printed[2:], ["--now", str(NOW), "--yes"]
    found = [] if given else ["--server-properties", str(deletes)]
    for verb, more in (("plan", now[:2]), ("clean", now), ("clean", [*now, *found])):
        code, said = command(verb, *words, *more)
        assert code in {0, 3}, said
        assert changes(before, files_of(log_dir)) == []


def test_page_ends_with_the_broker_if_nothing_needs_to_be_done(
    tmp_path: Path, command: Command
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["d-time-0", METADATA_DIR])
    remove_other_topics(log_dir)
    kept = ["--topic-set", "*:cleanup.policy=delete", "--topic-set", "*:retention.ms=-1"]
    code, page = command("doctor", str(log_dir), *kept, "--all")
    assert code == 0
    *_, title, last = page.splitlines()
    assert (title, last) == (
        "What to run next",
        "  Start the broker with its settings unchanged.",
    )
