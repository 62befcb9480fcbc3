"""An error about a path that is not a log directory names the log directories near it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.logdir.meta import read_meta
from winnow.storage.local import LocalStorage


def log_dir(path: Path, *, node: int, log_bytes: int = 0, mtime: int = 1_000_000_000) -> Path:
    (path / "t-0").mkdir(parents=True)
    (path / "meta.properties").write_text(f"version=0\nbroker.id={node}\ncluster.id=c\n")
    log = path / "t-0" / f"{0:020d}.log"
    log.write_bytes(bytes(log_bytes))
    os.utime(log, (mtime, mtime))
    return path


def refusal(path: Path) -> UsageError:
    with pytest.raises(UsageError, match="not a Kafka log directory") as caught:
        read_meta(LocalStorage(), str(path))
    return caught.value


def test_log_directories_below_are_named_the_last_written_first(tmp_path: Path) -> None:
    old = log_dir(tmp_path / "kafka-logs-a", node=1, log_bytes=2048)
    new = log_dir(tmp_path / "b" / "kafka-logs", node=2, mtime=1_700_000_000)
    log_dir(tmp_path / "too" / "deep" / "below", node=3)
    (tmp_path / "link").symlink_to(old)
    (new / ".kafka_cleanshutdown").touch()
    os.utime(new / ".kafka_cleanshutdown", (1_000, 1_000))
    hint = str(refusal(tmp_path).hint)
    assert hint.startswith("2 log directories below it")
    assert (
        f"{new} (node 2, cluster c, last written 2023-11-14T22:13:20Z, 0 B of logs, shut down "
        f"cleanly); {old} (node 1, cluster c, last written 2001-09-09T01:46:40Z, 2.0 KiB of logs, "
        "not shut down cleanly)"
    ) in hint
    assert "deep" not in hint
    assert "link" not in hint


def test_many_log_directories_are_counted(tmp_path: Path) -> None:
    for number in range(12):
        log_dir(tmp_path / f"logs-{number:02}", node=number)
    assert "12 log directories below it" in str(refusal(tmp_path).hint)
    assert "and 2 more" in str(refusal(tmp_path).hint)


def test_log_directory_of_a_partition_or_a_file_is_named(tmp_path: Path) -> None:
    own = log_dir(tmp_path / "logs", node=1)
    for path in (own / "t-0", own / "meta.properties", own / "t-0" / f"{0:020d}.log"):
        assert refusal(path).hint == f"Give its log directory: {own}"


def test_each_kind_of_wrong_path_has_a_sentence_of_its_own(tmp_path: Path) -> None:
    own = log_dir(tmp_path / "logs", node=1)
    (tmp_path / "empty").mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    named = (own / "meta.properties", pipe, own / "t-0", tmp_path, tmp_path / "empty")
    assert [str(refusal(path)).partition(" (/")[0] for path in named] == [
        "not a Kafka log directory but a file: expected a directory",
        "not a Kafka log directory but a file: expected a directory",
        (
            "not a Kafka log directory but the directory of a partition: expected a file "
            "meta.properties"
        ),
        (
            "not a Kafka log directory but a parent of log directories: expected a file "
            "meta.properties"
        ),
        "not a Kafka log directory: expected a file meta.properties, found none",
    ]


@pytest.mark.parametrize("name", ["server.properties", "config/server.properties"])
def test_log_dirs_of_a_server_properties_are_named(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("log.dir=/never\nlog.dirs=/data/a,/data/b\n")
    assert "log.dirs=/data/a,/data/b" in str(refusal(tmp_path).hint)
    assert "log.dirs=/data/a,/data/b" in str(refusal(file).hint)


def test_missing_path_is_said_to_be_missing(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nothing")
    assert error.found == "no such directory"
    assert "is its disk mounted?" in str(error.hint)
